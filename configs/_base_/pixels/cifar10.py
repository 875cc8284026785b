# Mean and standard deviation of CIFAR-10's pixels: red, green, blue, from 0 to 255.
cifar10_pixels = dict(mean=(125.307, 122.961, 113.8575), std=(51.5865, 50.847, 51.255))
