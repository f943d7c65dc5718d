"""Looking after what crashes leave: recover, check, rebuild, prune, marks, takeovers."""
