"""Score the baselines of a hidden Markov model against the exact belief.

Run:  python examples/quickstart.py
"""

import windtunnel as wt

# A new hidden Markov model in every episode; its matrices come at the start of the sequence.
tunnel = wt.tunnels.HMM(states=5, symbols=5, length=20)

episodes = tunnel.sample(1, seed=0, stream="test")
print("One episode: the observations, and how uncertain an exact reasoner is after each of them (bits)")
print("  " + " ".join(f"{symbol:4d}" for symbol in episodes.latent["observations"][0].tolist()))
print("  " + " ".join(f"{bits:4.2f}" for bits in episodes.entropy_bits[0].tolist()))

# A predictor is anything with `log_probs(inputs)`: a trained model is scored by the same call.
print("\nDistance from the exact belief, KL in bits")
print(f"  {'predictor':24} {'mean':>8}   95% interval")
for name, predictor in wt.baselines(tunnel).items():
    kl = wt.evaluate(predictor, tunnel, episodes=2000, seed=1).kl_bits
    print(f"  {name:24} {kl.mean:8.4f}   {kl.low:.4f} to {kl.high:.4f}")
