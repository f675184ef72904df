"""Plain re-implementations of fit, score and fragmentation, with which the engine is compared.

Belongs here: the obvious loop for what the engine computes with arrays. It knows the model alone:
no engine, no state, no numpy. Pure.
"""
