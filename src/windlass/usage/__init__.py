"""GPU time had, decayed: who used how much, lately. Pure: time comes in with every call."""
