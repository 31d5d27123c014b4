"""Two elastic balls in MJX: the same motion, and what its derivatives are."""
# pyright: reportAttributeAccessIssue=false

import numpy as np

_MODEL = """
<mujoco>
  <option gravity="0 0 0" timestep="{dt}"/>
  <worldbody>
    <body><joint type="slide" axis="1 0 0"/><geom size="{radius}" mass="1" {contact}/></body>
    <body><joint type="slide" axis="1 0 0"/><geom size="{radius}" mass="1" {contact}/></body>
  </worldbody>
</mujoco>
"""
# An undamped contact: the relative acceleration is -ω² times the gap, but for one part in 10⁴.
_CONTACT = 'condim="1" solref="-{square} 0" solimp="0.9999 0.9999 0.001"'


def elastic_balls(
    start: np.ndarray, radius: float, contact_time: float, dt: float, steps: int
) -> tuple[float, np.ndarray]:
    """Place (m) of the second ball at the end, and its derivatives by (x₁, x₂, v₁, v₂)."""
    import jax
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx

    contact = _CONTACT.format(square=(np.pi / contact_time) ** 2)
    xml = _MODEL.format(dt=dt, radius=radius, contact=contact)
    model = mujoco.MjModel.from_xml_string(xml)
    on_device = mjx.put_model(model)
    data = mjx.make_data(model)

    def end(x):
        first = data.replace(qpos=x[:2], qvel=x[2:])
        last = jax.lax.fori_loop(0, steps, lambda _, now: mjx.step(on_device, now), first)
        return last.qpos[1]

    value, slope = jax.jit(lambda x: (end(x), jax.jacfwd(end)(x)))(jnp.asarray(start))
    return float(value), np.asarray(slope)
