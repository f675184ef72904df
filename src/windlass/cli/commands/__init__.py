"""The commands, one module each, and parts of commands that are too large for one module.

Belongs here: the options, arguments and help text of a command, and the steps from its input to its
output. Does not belong here: decisions about a cluster, and wording that several commands share
(`render`). Commands may do all I/O. Each module imports what it needs inside functions, so that the
help of one command does not load the packages of another.

    completion      scripts for completion in a shell
    crds            the CustomResourceDefinitions
    dashboard       the way to the dashboard of a cluster
    demo            a simulation, live in the terminal
    doctor          checks of a cluster
    explain         reasons, places and evictions of one job
    install         install and uninstall, with Helm
    jobs            the gangs of a cluster
    plan            the plan for a snapshot
    plan_diff       `plan --with`: the difference that a change makes
    queues          the tree of queues
    replay          a recording decided again
    replay_compare  `replay --with`: recorded work under another policy
    run             the scheduler; pause and resume its evictions
    scenario        scenario files and their expectations
    simulate        a simulation and its report
    simulate_trace  `simulate --trace`: the jobs of a trace
    snapshot        a cluster as a file
    submit          a command run as a gang
    top             a cluster, live in the terminal
    webhook         the admission webhook
"""
