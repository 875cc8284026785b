# Mean and standard deviation of the digits' pixels, gray, scaled to 0 to 255.
digits_pixels = dict(mean=(78,) * 3, std=(96,) * 3)
