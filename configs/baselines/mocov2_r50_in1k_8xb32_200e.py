_base_ = ['_base_/moco.py', '_base_/imagenet_sgd_200e.py']
