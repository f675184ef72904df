"""The dashboard's edge: what a cycle left, as documents; and a server that hands them out.

    board      what is shown now and the remembered cycles; the scheduler's side
    look       one moment, copied so that others can look at it while the cluster moves on
    pages      the documents of that moment, made when somebody asks, once for all
    trail      the newest of a line of documents and what led to it
    wire       where a document becomes bytes, and what has changed between two of them
    door       who is let in, where not everybody may see everything; `rights`: what they may see
    reader     what is left of the documents for them (`veil`, `veil_map`, `spoken`)
    recorded   what a record must answer; `looking_back`: its addresses
    problems   what goes wrong, in one shape; `query`: what a request asks for
    app, serve the addresses, read-only, on loopback

The documents are made by pure functions of a moment (`cluster`, `queues`, `flows`, `jobs`,
`decisions`), in words defined once (`documents`, `cycle_documents`). Nothing here decides, and
nothing knows where the cluster comes from: whoever runs cycles calls `Board.note` after each and
`Board.show` when it is worth a look. The page itself is in `ui/`; `make run` builds it into
`static/`.
"""
