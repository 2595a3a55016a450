"""brax PPO on an environment of three lines: the training loop is brax's, and we see it by its `progress_fn`."""

import time

import jax
import jax.numpy as jnp
from brax.envs.base import Env, State
from brax.training.agents.ppo import train as ppo
from truth import report


class Cart(Env):
    """A cart that is to be brought to the middle: place and speed are seen, a force is given."""

    def reset(self, rng):
        place = jax.random.uniform(rng, (2,), minval=-1.0, maxval=1.0)
        zero = jnp.zeros(())
        return State(place, place, zero, zero, {"reward": zero})

    def step(self, state, action):
        speed = state.pipeline_state[1] + 0.1 * jnp.clip(action[0], -1, 1)
        place = state.pipeline_state[0] + 0.1 * speed
        now = jnp.stack([place, speed])
        reward, done = 1.0 - place**2, jnp.where(jnp.abs(place) > 2.0, 1.0, 0.0)
        return state.replace(
            pipeline_state=now, obs=now, reward=reward, done=done, metrics={"reward": reward}
        )

    observation_size = property(lambda self: 2)
    action_size = property(lambda self: 1)
    backend = property(lambda self: "none")


EVALUATIONS = 20
times = []


def progress(num_steps, metrics):
    times.append(time.perf_counter())
    print(num_steps, f"{float(metrics['eval/episode_reward']):.3f}")


make_policy, params, _ = ppo.train(
    environment=Cart(), num_timesteps=64 * 16 * 8 * 24 * EVALUATIONS, episode_length=100, num_envs=64, num_eval_envs=16,
    learning_rate=3e-4, unroll_length=16, batch_size=64, num_minibatches=8, num_updates_per_batch=2,
    num_evals=EVALUATIONS + 1, seed=0, progress_fn=progress,
)  # fmt: skip
# The first is of the untrained policy, and the second follows the compile.
report(
    ("training_epoch", "training_epoch_with_timing"), len(times) - 2, times[-1] - times[1], params,
    evaluation="generate_eval_unroll",
)  # fmt: skip
