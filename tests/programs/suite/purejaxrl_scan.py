"""PPO as PureJaxRL writes it: environment, rollout, advantages and updates in one jitted call, for two seeds."""

import time
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from truth import report, steps, watch

CONFIG = {
    "ENVS": 64,
    "ROLLOUT": 32,
    "UPDATES": 150,
    "EPOCHS": 4,
    "MINIBATCHES": 4,
    "WIDTH": 128,
    "GAMMA": 0.99,
}


def reset(key):
    """A cart that is to be brought to the middle: its place and its speed."""
    return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)


def env_step(key, state, action):
    speed = state[1] + 0.1 * (action - 1)
    place = state[0] + 0.1 * speed
    done = jnp.abs(place) > 2.0
    return jnp.where(done, reset(key), jnp.stack([place, speed])), 1.0 - place**2, done


class ActorCritic(nn.Module):
    """Logits of three actions, and a value."""

    @nn.compact
    def __call__(self, x):
        actor = nn.tanh(nn.Dense(CONFIG["WIDTH"])(x))
        actor = nn.Dense(3)(nn.tanh(nn.Dense(CONFIG["WIDTH"])(actor)))
        critic = nn.tanh(nn.Dense(CONFIG["WIDTH"])(x))
        critic = nn.Dense(1)(nn.tanh(nn.Dense(CONFIG["WIDTH"])(critic)))
        return actor, critic[..., 0]


class Transition(NamedTuple):
    """One step of all environments."""

    done: jax.Array
    action: jax.Array
    value: jax.Array
    reward: jax.Array
    log_prob: jax.Array
    obs: jax.Array


def log_prob_of(logits, action):
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def make_train(config):
    network = ActorCritic()

    def train(rng):
        rng, key = jax.random.split(rng)
        params = network.init(key, jnp.zeros(2))
        tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5))
        train_state = TrainState.create(apply_fn=network.apply, params=params, tx=tx)
        rng, key = jax.random.split(rng)
        obsv = jax.vmap(reset)(jax.random.split(key, config["ENVS"]))

        def _update_step(runner_state, _):
            def _env_step(runner_state, _):
                train_state, last_obs, rng = runner_state
                rng, act_key, env_key = jax.random.split(rng, 3)
                logits, value = network.apply(train_state.params, last_obs)
                action = jax.random.categorical(act_key, logits)
                keys = jax.random.split(env_key, config["ENVS"])
                obsv, reward, done = jax.vmap(env_step)(keys, last_obs, action)
                transition = Transition(done, action, value, reward, log_prob_of(logits, action), last_obs)
                return (train_state, obsv, rng), transition

            runner_state, traj = jax.lax.scan(_env_step, runner_state, None, config["ROLLOUT"])
            train_state, last_obs, rng = runner_state
            _, last_value = network.apply(train_state.params, last_obs)

            def _advantage(carry, transition):
                gae, next_value = carry
                alive = 1 - transition.done
                delta = transition.reward + config["GAMMA"] * next_value * alive - transition.value
                gae = delta + config["GAMMA"] * 0.95 * alive * gae
                return (gae, transition.value), gae

            start = (jnp.zeros_like(last_value), last_value)
            _, advantages = jax.lax.scan(_advantage, start, traj, reverse=True, unroll=16)
            targets = advantages + traj.value

            def _update_epoch(update_state, _):
                train_state, rng = update_state

                def _update_minibatch(train_state, minibatch):
                    def _loss(params, traj, gae, targets):
                        logits, value = network.apply(params, traj.obs)
                        ratio = jnp.exp(log_prob_of(logits, traj.action) - traj.log_prob)
                        gae = (gae - gae.mean()) / (gae.std() + 1e-8)
                        actor = -jnp.minimum(ratio * gae, jnp.clip(ratio, 0.8, 1.2) * gae).mean()
                        probabilities = jax.nn.softmax(logits)
                        entropy = -(probabilities * jax.nn.log_softmax(logits)).sum(-1).mean()
                        return actor + 0.5 * ((value - targets) ** 2).mean() - 0.01 * entropy

                    grads = jax.grad(_loss)(train_state.params, *minibatch)
                    return train_state.apply_gradients(grads=grads), None

                rng, key = jax.random.split(rng)
                size = config["ROLLOUT"] * config["ENVS"]
                order = jax.random.permutation(key, size)

                def _shuffled(leaf):
                    leaf = leaf.reshape((size, *leaf.shape[2:]))[order]
                    return leaf.reshape((config["MINIBATCHES"], -1, *leaf.shape[1:]))

                minibatches = jax.tree.map(_shuffled, (traj, advantages, targets))
                train_state, _ = jax.lax.scan(_update_minibatch, train_state, minibatches)
                return (train_state, rng), None

            (train_state, rng), _ = jax.lax.scan(_update_epoch, (train_state, rng), None, config["EPOCHS"])
            return (train_state, last_obs, rng), traj.reward.mean()

        runner_state, rewards = jax.lax.scan(_update_step, (train_state, obsv, rng), None, config["UPDATES"])
        return {"runner_state": runner_state, "rewards": rewards}

    return train


train_jit = watch(jax.jit(make_train(CONFIG)))
seconds = 0.0
for seed in steps(range(2)):
    began = time.perf_counter()
    out = jax.block_until_ready(train_jit(jax.random.key(seed)))
    seconds = time.perf_counter() - began  # of the last, which compiles nothing
    print("seed", seed, f"reward {out['rewards'][0]:.3f} -> {out['rewards'][-1]:.3f}")
report("train", 1, seconds, out["runner_state"][0].params, iterations=CONFIG["UPDATES"])
