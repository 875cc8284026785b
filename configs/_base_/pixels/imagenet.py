# Mean and standard deviation of ImageNet's pixels: red, green, blue, from 0 to 255.
imagenet_pixels = dict(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))
