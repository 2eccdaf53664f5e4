"""Networks of signals, between which complex numbers are; see foreign_networks.py."""

import tensorflow as tf

import foreign_keras
from foreign_keras import LINE, Input, layers, line, of, ops
from foreign_models import points


def sound():
    return Input((64,), name="x")


SOUND = points(134, 2, 64)


def spectrogram():
    x = sound()
    y = layers.Lambda(lambda each: tf.math.log(tf.abs(tf.signal.stft(each, 16, 8))[..., None] + 1e-3), output_shape=(7, 9, 1))(x)
    return of(x, layers.Dense(3)(layers.GlobalMaxPooling2D()(layers.Conv2D(4, 3)(layers.Resizing(6, 6)(y)))), SOUND)


def mel():
    x = sound()
    return of(x, layers.MelSpectrogram(16, 8, sampling_rate=100, num_mel_bins=4, min_freq=1)(x), SOUND)


def fourier_layers():
    """Tokens that are mixed by a transform; weights for each frequency."""
    x = line()

    class Filter(layers.Layer):
        def build(self, shape):
            self.real, self.imag = self.add_weight(shape=(4, 4, 4)), self.add_weight(shape=(4, 4, 4))

        def call(self, y):
            y = tf.einsum("bim,iom->bom", tf.signal.rfft(tf.transpose(y, [0, 2, 1])), tf.complex(self.real, self.imag))
            return tf.transpose(tf.signal.irfft(y, [6]), [0, 2, 1])

    mixed = layers.Lambda(lambda y: tf.math.real(tf.signal.fft2d(tf.cast(y, tf.complex64))), output_shape=(6, 4))(x)
    return of(x, layers.LayerNormalization()(Filter()(x + mixed)), LINE)


def transforms():
    x = line()
    spectrum = ops.stft(x[:, :, 0], 4, 2, 4)
    pairs = [ops.rfft(x), ops.fft((x, x * 0.5)), spectrum, ops.fft2((x, x)), ops.ifft2((x, x))]
    return of(x, [each for pair in pairs for each in pair] + [ops.irfft(ops.rfft(x * 2)), ops.istft(spectrum, 4, 2, 4)], LINE)


def voice():
    """The amplitudes and phases of a signal, and what is made of them again."""
    x, s, m = line(), tf.signal, tf.math

    def call(y):
        z = s.stft(y[:, :, 0], 4, 1)
        again = tf.complex(tf.abs(z) * tf.cos(m.angle(z)), tf.abs(z) * tf.sin(m.angle(z)))
        turned = tf.exp(1j * tf.cast(y[:, :, 1], tf.complex64)) * m.conj(again[:, :1, :1][:, 0])
        return [m.real(z), m.imag(z), tf.cos(m.angle(z)), s.inverse_stft(again, 4, 1, window_fn=s.inverse_stft_window_fn(1)), m.real(turned),
                m.imag(s.ifft(again)), tf.abs(tf.reduce_mean(z, 1)), s.dct(y, 3), s.idct(y), s.irfft2d(s.rfft2d(y)),
                tf.abs(tf.matmul(z, z, adjoint_b=True)), tf.abs(tf.gather(z, [1, 0], axis=2) / (again[..., :2] + 1))]

    return of(x, layers.Lambda(call, output_shape=lambda shape: [shape] * 12)(x), LINE)


NETWORKS = (spectrogram, mel, fourier_layers, transforms, voice)


def write(folder):
    foreign_keras.write(folder, NETWORKS, {})
