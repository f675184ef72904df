"""Learned numbers about the past: GPU time that users had, and run times of work.

Belongs here: small numeric summaries of what ran, and what they say about now. Does not belong
here: decisions. Pure: the time comes in with every call.

    ledger      decayed GPU time by queue, user and GPU model
    run_times   run times of finished work, and estimates for similar work
"""
