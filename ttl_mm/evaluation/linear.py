"""A linear probe on extracted features: logistic regression without penalty.

It is the one of scikit-learn (the same objective, the same L-BFGS from zero weights, the same end),
but takes the features in chunks and computes on any device. No augmentation, no schedule and no
learning rate to choose, so two people get the same number. It is not the paper's linear protocol,
which trains with SGD on augmented images: that is configs/linear.
"""

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F

from ttl_mm.errors import UserError

CHUNK = 1 << 14  # rows whose logits are held at a time


def linear_classify(train_features, train_labels, test_features, max_iter: int = 1000, device=None):
    """Predict a label for every test sample by multinomial logistic regression.

    On separable features the optimum lies at infinity, and where the minimiser stops depends on the
    scale of the features: they are taken as they are. Arguments and result are those of
    :func:`ttl_mm.evaluation.knn_classify`; there are at most ``max_iter`` steps of L-BFGS, which
    ends where no gradient exceeds 1e-4.
    """
    labels = train_labels.cpu().numpy() if isinstance(train_labels, Tensor) else train_labels
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise UserError(f'the training set has {len(classes)} class: a linear probe needs two.')
    device = torch.device(device or getattr(train_features, 'device', 'cpu'))
    weight = fit_logistic(train_features, codes, len(classes), max_iter, device)  # (D + 1, C)
    winners = [(x @ weight[:-1] + weight[-1]).argmax(1) for x in _chunks(test_features, device)]
    predicted = classes[torch.cat(winners).cpu().numpy()]
    if isinstance(train_labels, Tensor):
        return torch.from_numpy(predicted).to(train_labels.device)
    return predicted


def fit_logistic(features, codes, num_classes: int, max_iter: int, device) -> Tensor:
    """Weights (D, C), and biases in one more row, that minimise the mean cross-entropy."""
    shape = features.shape[1] + 1, num_classes
    if len(features) <= CHUNK:
        features = next(_chunks(features, device))  # converted once, not in every step
    targets = torch.as_tensor(codes, device=device)

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight = torch.from_numpy(flat).view(shape).to(device)
        loss, gradient = weight.new_zeros(()), torch.zeros_like(weight)
        for x, y in zip(_chunks(features, device), targets.split(CHUNK)):
            log_p = F.log_softmax(x @ weight[:-1] + weight[-1], dim=1)  # (n, C)
            loss += F.nll_loss(log_p, y, reduction='sum')
            error = log_p.exp() - F.one_hot(y, num_classes)
            gradient[:-1] += x.T @ error
            gradient[-1] += error.sum(0)
        count = len(features)
        return loss.item() / count, (gradient / count).cpu().numpy().ravel()

    with torch.no_grad():
        result = minimize(
            loss_and_gradient,
            np.zeros(shape[0] * shape[1]),
            method='L-BFGS-B',
            jac=True,
            # ftol and maxls as in scikit-learn
            options={'maxiter': max_iter, 'maxls': 50, 'gtol': 1e-4, 'ftol': 64 * 2.0**-52},
        )
    return torch.from_numpy(result.x).view(shape).to(device)


def _chunks(features, device):
    """Rows in float64, CHUNK at a time."""
    for start in range(0, len(features), CHUNK):
        rows = features[start : start + CHUNK]
        rows = rows if isinstance(rows, Tensor) else torch.tensor(rows)
        yield rows.to(device, torch.float64)
