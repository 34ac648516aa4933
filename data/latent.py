def hide(data, latent, rng):
    return data
