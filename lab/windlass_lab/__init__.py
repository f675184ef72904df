"""The instruments of Windlass: everything that tests, measures and judges the product.

Belongs here: a real control plane on loopback (`control_plane`), a proxy that makes API calls
fail (`api_proxy`), a fake kubelet and its nodes (`fake_kubelet`, `fake_nodes`), benchmarks
(`live_bench`, `trials`), plain re-implementations that the engine is compared with (`oracle`), and
the test cases of other schedulers (`conformance`). `commands` holds the command line of all of
these; it is registered through the entry point group `windlass.commands`, so `windlass bench`
exists in a checkout only.

Does not belong here: anything that a cluster runs or that its users call. The product never imports
this package, and the wheel does not contain it. It may do I/O.
"""
