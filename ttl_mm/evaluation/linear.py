"""A linear probe on extracted features: logistic regression without penalty.

It is the one of scikit-learn (the same objective, the same L-BFGS from zero weights, the same end),
but takes the features in chunks and computes on any device. No augmentation, no schedule and no
learning rate to choose, so two people get the same number. It is not the paper's linear protocol,
which trains with SGD on augmented images: that is configs/linear.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ttl_mm.errors import UserError

ROOM = 2 << 30  # bytes of a CPU's memory that a fit may use; of a GPU's it is half of what is free
CHUNK = 1 << 14  # rows whose logits are held at a time


def linear_classify(
    train_features, train_labels, test_features, max_iter: int = 1000, device=None,
    alive: Callable[[], None] = lambda: None,
):  # fmt: skip
    """Predict a label for every test sample by multinomial logistic regression.

    On separable features the optimum lies at infinity, and where the minimizer stops depends on the
    scale of the features: they are taken as they are. Arguments and result are those of
    :func:`ttl_mm.evaluation.knn_classify`; there are at most ``max_iter`` steps of L-BFGS, which
    ends where no gradient exceeds 1e-4. ``alive`` is called in every one.

    >>> linear_classify(np.array([[0.0], [1], [4], [5]]), [0, 0, 1, 1], np.array([[0.5], [4.5]]))
    array([0, 1])
    """
    labels = train_labels.cpu().numpy() if isinstance(train_labels, Tensor) else train_labels
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise UserError(f'the training set has {len(classes)} class: a linear probe needs two.')
    device = torch.device(device or getattr(train_features, 'device', 'cpu'))
    # (D + 1, C)
    weight = fit_logistic(train_features, codes, len(classes), max_iter, device, alive)
    winners = [(x @ weight[:-1] + weight[-1]).argmax(1) for x in _chunks(test_features, device)]
    predicted = classes[torch.cat(winners).cpu().numpy()]
    if isinstance(train_labels, Tensor):
        return torch.from_numpy(predicted).to(train_labels.device)
    return predicted


def fit_logistic(
    features, codes, num_classes: int, max_iter: int, device, alive=lambda: None,
    penalty: float = 0.0,
) -> Tensor:  # fmt: skip
    """Weights W (D, C), and biases in one more row: least mean cross-entropy + penalty·½|W|²."""
    shape = features.shape[1] + 1, num_classes
    kept = _resident(features, device)  # moved and converted once, not in every step
    targets = torch.as_tensor(codes, device=device)

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        alive()
        weight = torch.from_numpy(flat).view(shape).to(device)
        loss, gradient = weight.new_zeros(()), torch.zeros_like(weight)
        for x, y in zip(kept or _chunks(features, device), targets.split(CHUNK)):
            x = x.double()
            log_p = F.log_softmax(x @ weight[:-1] + weight[-1], dim=1)  # (n, C)
            loss += F.nll_loss(log_p, y, reduction='sum')
            error = log_p.exp() - F.one_hot(y, num_classes)
            gradient[:-1] += x.T @ error
            gradient[-1] += error.sum(0)
        loss, gradient = loss / len(features), gradient / len(features)
        loss += penalty / 2 * weight[:-1].square().sum()
        gradient[:-1] += penalty * weight[:-1]
        return loss.item(), gradient.cpu().numpy().ravel()

    from scipy.optimize import minimize  # half a second, which only this needs

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


def _resident(features, device: torch.device | str) -> list[Tensor] | None:
    """The chunks of ``features``, in the memory of the device; None if it has too little room.

    In float64, in which the fit computes, or else in float32, to be converted chunk by chunk.
    """
    device = torch.device(device)
    on_gpu = device.type == 'cuda'
    room = torch.cuda.mem_get_info(device)[0] // 2 if on_gpu else ROOM
    for dtype in (torch.float64, torch.float32) if on_gpu else (torch.float64,):
        if len(features) * features.shape[1] * dtype.itemsize <= room:
            return [rows.to(dtype) for rows in _chunks(features, device)]
    return None


def _chunks(features, device):
    """Rows in float64, CHUNK at a time; converted on the device."""
    for start in range(0, len(features), CHUNK):
        rows = features[start : start + CHUNK]
        rows = rows if isinstance(rows, Tensor) else torch.tensor(rows)
        yield rows.to(device).double()
