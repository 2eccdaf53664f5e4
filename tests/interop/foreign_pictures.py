"""Networks of pictures; see foreign_networks.py."""

import tensorflow as tf

from foreign_keras import Input, Sequential, layers, norm_relu, of, ops
from foreign_models import points

PICTURE = points(120, 2, 8, 8, 3)


def picture():
    return Input((8, 8, 3), name="x")


def head(y, classes=3):
    return layers.Dense(classes, "softmax")(layers.GlobalAveragePooling2D()(y))


def resnet():
    x = picture()
    y = norm_relu(layers.Conv2D(4, 3, 2, "same", use_bias=False)(layers.ZeroPadding2D(1)(x)))
    y = layers.MaxPooling2D(3, 2, "same")(y)
    for stride in (1, 2):
        z = norm_relu(layers.Conv2D(4, 1, stride)(y))
        z = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(z))
        y = layers.ReLU()(layers.Add()([layers.BatchNormalization()(layers.Conv2D(8, 1, stride)(y)), z]))
    return of(x, head(y), PICTURE)


def mobilenet():
    x = picture()
    y = layers.ReLU(6.0)(layers.BatchNormalization(momentum=0.999)(layers.Conv2D(4, 3, 2, "same")(layers.Rescaling(2.0, -1)(x))))
    z = norm_relu(layers.Conv2D(12, 1)(y), "hard_silu")
    z = layers.DepthwiseConv2D(3, 2, "valid")(layers.ZeroPadding2D(((0, 1), (0, 1)))(z))
    z = norm_relu(z, "hard_silu")
    s = layers.GlobalAveragePooling2D(keepdims=True)(z)
    s = layers.Conv2D(12, 1, activation="hard_sigmoid")(layers.Conv2D(3, 1, activation="relu")(s))
    y = layers.BatchNormalization()(layers.Conv2D(4, 1)(layers.Multiply()([z, s])))
    return of(x, head(layers.Dropout(0.2)(y)), PICTURE)


def efficientnet():
    x = picture()
    y = layers.Normalization(axis=3, mean=[0.4, 0.5, 0.6], variance=[0.1, 0.2, 0.3])(layers.Rescaling(1 / 3)(x))
    y = norm_relu(layers.Conv2D(4, 3, 2, "same")(y), "swish")
    z = norm_relu(layers.DepthwiseConv2D(5, padding="same")(norm_relu(layers.Conv2D(8, 1)(y), "swish")), "swish")
    s = layers.Reshape((1, 1, 8))(layers.GlobalAveragePooling2D()(z))
    s = layers.Conv2D(8, 1, activation="sigmoid")(layers.Conv2D(2, 1, activation="swish")(s))
    z = layers.BatchNormalization()(layers.Conv2D(4, 1)(z * s))
    y = layers.Add()([layers.Dropout(0.2, noise_shape=(None, 1, 1, 1))(z), y])
    return of(x, head(y), PICTURE)


def densenet():
    x = picture()
    y = layers.Conv2D(4, 3, padding="same")(x)
    for _ in range(2):
        z = layers.Conv2D(2, 3, padding="same")(norm_relu(layers.Conv2D(4, 1)(norm_relu(y))))
        y = layers.Concatenate()([y, z])
    y = layers.AveragePooling2D(2)(layers.Conv2D(3, 1)(norm_relu(y)))
    return of(x, head(y), PICTURE)


def inception():
    x = picture()
    parts = [layers.Conv2D(2, 1)(x), layers.Conv2D(2, 3, padding="same")(layers.Conv2D(2, 1)(x)),
             layers.Conv2D(2, (1, 7), padding="same")(layers.Conv2D(2, (7, 1), padding="same")(x)),
             layers.Conv2D(2, 1)(layers.AveragePooling2D(3, 1, "same")(x))]
    y = norm_relu(layers.Concatenate()(parts))
    y = layers.Concatenate()([layers.MaxPooling2D(3, 2)(y), layers.Conv2D(3, 3, 2)(y)])
    return of(x, head(y), PICTURE)


def xception():
    x = picture()
    y = norm_relu(layers.SeparableConv2D(4, 3, padding="same", use_bias=False)(x))
    y = layers.MaxPooling2D(3, 2, "same")(layers.SeparableConv2D(6, 3, padding="same", depth_multiplier=2)(y))
    return of(x, head(y + layers.Conv2D(6, 1, 2, "same")(x)), PICTURE)


def convnext():
    x = picture()
    y = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(4, 2, 2)(x))

    class Scale(layers.Layer):
        def build(self, shape):
            self.gamma = self.add_weight(shape=(shape[-1],), name="gamma")

        def call(self, z):
            return z * self.gamma

    z = layers.Conv2D(4, 7, padding="same", groups=4)(y)
    z = layers.Dense(4)(layers.Dense(8, "gelu")(layers.LayerNormalization()(z)))
    return of(x, head(y + Scale()(z)), PICTURE)


def unet():
    x = picture()
    a = layers.Conv2D(3, 3, activation="relu", padding="same")(x)
    b = layers.Conv2D(4, 3, activation="relu", padding="same")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(5, 2, activation="relu")(layers.MaxPooling2D()(b))
    up = layers.Conv2DTranspose(4, 2, 2)(c)
    up = layers.Conv2D(4, 3, padding="same")(layers.Concatenate()([layers.Cropping2D(1)(b), up]))
    up = layers.ZeroPadding2D(1)(up)
    up = layers.Conv2DTranspose(3, 3, 2, "same", output_padding=1)(up)
    return of(x, layers.Conv2D(2, 1, activation="softmax")(layers.Concatenate()([a, up])), PICTURE)


def super_resolution():
    x = Input((None, None, 3), name="x")
    y = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(12, 5, padding="same")(x))
    y = layers.Lambda(lambda z: tf.nn.depth_to_space(z, 2))(y)
    y = layers.Conv2D(3, 3, padding="same", activation="tanh")(y)
    return of(x, y + layers.UpSampling2D(2)(x), PICTURE)


def attention_module():
    """Channels, then places, as in CBAM."""
    x = picture()
    shared = Sequential([layers.Dense(2, "relu"), layers.Dense(3)])
    channels = layers.Activation("sigmoid")(shared(layers.GlobalAveragePooling2D()(x)) + shared(layers.GlobalMaxPooling2D()(x)))
    y = layers.Multiply()([x, layers.Reshape((1, 1, 3))(channels)])
    places = ops.concatenate([ops.mean(y, 3, True), ops.max(y, 3, True)], 3)
    return of(x, y * layers.Conv2D(1, 3, padding="same", activation="sigmoid")(places), PICTURE)


def vision_transformer():
    x = picture()

    class Tokens(layers.Layer):
        def build(self, shape):
            self.token = self.add_weight(shape=(1, 1, shape[-1]), name="token")
            self.places = self.add_weight(shape=(1, shape[1] + 1, shape[-1]), name="places")

        def call(self, y):
            return ops.concatenate([ops.broadcast_to(self.token, (ops.shape(y)[0], 1, y.shape[-1])), y], 1) + self.places

    y = Tokens()(layers.Reshape((-1, 4))(layers.Conv2D(4, 4, 4)(x)))
    z = layers.LayerNormalization()(y)
    y = y + layers.MultiHeadAttention(2, 2)(z, z)
    y = y + layers.Dense(4)(layers.Dense(8, "gelu")(layers.LayerNormalization()(y)))
    return of(x, layers.Dense(3)(y[:, 0]), PICTURE)


def normalized():
    x = picture()
    y = layers.SpectralNormalization(layers.Conv2D(4, 3, padding="same"))(x)
    y = layers.GroupNormalization(2)(y) + layers.GroupNormalization(-1)(y) + layers.LayerNormalization([1, 2, 3])(y)
    y = layers.BatchNormalization(axis=1)(y) + layers.UnitNormalization()(y) + layers.LayerNormalization(scale=False)(y)
    return of(x, layers.RMSNormalization()(y), PICTURE)


def locally_connected():
    """Filters of their own at each place."""
    x = picture()

    class Local(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(6, 6, 27, 2), name="kernel")

        def call(self, y):
            return ops.einsum("bhwi,hwio->bhwo", ops.image.extract_patches(y, 3, 1), self.kernel)

    return of(x, Local()(x), PICTURE)


def augmented():
    x = picture()
    y = layers.RandomZoom(0.2)(layers.RandomRotation(0.2)(layers.RandomFlip()(x)))
    y = layers.RandomTranslation(0.1, 0.1)(layers.RandomContrast(0.2)(layers.RandomBrightness(0.2)(y)))
    y = layers.Resizing(5, 6, crop_to_aspect_ratio=True)(layers.RandomCrop(6, 7)(layers.CenterCrop(7, 8)(y)))
    return of(x, layers.Conv2D(2, 2)(y), PICTURE)


def detector():
    """The head of YOLO: boxes by a grid, and the best of them."""
    x = picture()
    y = layers.Reshape((16, 6))(layers.Conv2D(6, 2, 2)(x))

    def decode(y):
        grid = tf.stack(tf.meshgrid(tf.range(4), tf.range(4)), -1)
        centers = (tf.sigmoid(y[..., :2]) + tf.cast(tf.reshape(grid, [1, 16, 2]), tf.float32)) / 4
        sizes = tf.exp(y[..., 2:4]) * [0.3, 0.4]
        boxes = tf.concat([centers - sizes / 2, centers + sizes / 2], -1)
        found = tf.image.combined_non_max_suppression(boxes[:, :, None], tf.sigmoid(y[..., 4:]), 3, 5, 0.5, 0.3, clip_boxes=True)
        return list(found)

    return of(x, layers.Lambda(decode)(y), PICTURE)


def sampler():
    """A spatial transformer."""
    x = picture()
    theta = layers.Dense(6)(layers.Flatten()(layers.Conv2D(2, 3, 2)(x)))

    def sample(x, theta):
        grid = tf.stack([*tf.meshgrid(tf.linspace(-1.0, 1.0, 8), tf.linspace(-1.0, 1.0, 8)), tf.ones([8, 8])], -1)
        at = tf.einsum("hwk,bck->bhwc", grid, tf.reshape(theta * 0.1, [-1, 2, 3]) + tf.eye(2, 3)) * 3.5 + 3.5
        low = tf.clip_by_value(tf.cast(tf.floor(at), tf.int32), 0, 6)
        part = at - tf.cast(low, tf.float32)
        total = 0
        for dy in (0, 1):
            for dx in (0, 1):
                place = tf.stack([low[..., 1] + dy, low[..., 0] + dx], -1)
                share = (part[..., 1] if dy else 1 - part[..., 1]) * (part[..., 0] if dx else 1 - part[..., 0])
                total += tf.gather_nd(x, place, batch_dims=1) * share[..., None]
        return total

    return of(x, layers.Lambda(lambda each: sample(*each))([x, theta]), PICTURE)


def volumes():
    x = Input((4, 4, 4, 2), name="x")
    y = layers.Conv3DTranspose(2, 3, 2, "same")(layers.MaxPooling3D(2)(layers.Conv3D(3, 3, padding="same", activation="elu")(x)))
    return of(x, layers.GlobalAveragePooling3D()(layers.BatchNormalization()(y)), points(122, 2, 4, 4, 4, 2))


def quantization_aware():
    x = picture()
    fake = tf.quantization.fake_quant_with_min_max_vars

    class Quantized(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(3, 3, shape[-1], 4), name="kernel")

        def call(self, y):
            kernel = tf.quantization.fake_quant_with_min_max_vars_per_channel(self.kernel, [-0.5] * 4, [0.5] * 4, narrow_range=True)
            return fake(tf.nn.relu6(tf.nn.conv2d(y, kernel, 1, "SAME")), 0.0, 6.0)

    return of(x, head(Quantized()(x)), PICTURE)


NETWORKS = (resnet, mobilenet, efficientnet, densenet, inception, xception, convnext, unet, super_resolution,
            attention_module, vision_transformer, normalized, locally_connected, sampler, volumes, quantization_aware)
