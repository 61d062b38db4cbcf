"""Small networks, as they are trained: forward and backward of one batch."""

import numpy as np

import hookgrad as hg
from benchmarks.workloads.base import Goal, Workload, normal


class Classifier(Workload):
    """A ReLU network with cross-entropy, float32. `sizes` are the widths of its layers, `batch` the rows of a batch."""

    operation = "batch"
    sizes = ()
    batch = 0

    def data(self):
        """Inputs, labels, and the weights and biases, layer by layer."""
        x = normal(self.batch, self.sizes[0])
        labels = np.random.default_rng(3).integers(0, self.sizes[-1], self.batch)
        parameters = []
        for n_in, n_out in zip(self.sizes, self.sizes[1:], strict=False):
            parameters += [normal(n_in, n_out, scale=(2 / n_in) ** 0.5), normal(n_out, scale=0.1)]
        return x, labels, parameters

    def numpy(self):
        x, labels, parameters = self.data()
        weights, biases = parameters[::2], parameters[1::2]
        rows = np.arange(len(x))

        def run():
            inputs = []
            h = x
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                inputs.append(h)
                h = np.maximum(h @ w + b, 0)
            inputs.append(h)
            z = h @ weights[-1] + biases[-1]
            # Cross-entropy, whose gradient is softmax minus the one-hot labels.
            z = z - z.max(axis=1, keepdims=True)
            e = np.exp(z)
            s = e.sum(axis=1, keepdims=True)
            loss = (np.log(s[:, 0]) - z[rows, labels]).mean()
            g = e / s
            g[rows, labels] -= 1
            g /= len(x)
            grads = []
            for k in reversed(range(len(weights))):
                grads += [g.sum(axis=0), inputs[k].T @ g]
                if k:
                    # A unit's output is positive exactly where its input was.
                    g = (g @ weights[k].T) * (inputs[k] > 0)
            return loss, grads[::-1]

        return run

    def hookgrad(self):
        x, labels, parameters = self.data()
        x, labels = hg.tensor(x), hg.tensor(labels)
        parameters = [hg.tensor(p, requires_grad=True) for p in parameters]
        *hidden, (w_out, b_out) = list(zip(parameters[::2], parameters[1::2], strict=True))
        relu, cross_entropy = hg.nn.functional.relu, hg.nn.functional.cross_entropy

        def run():
            for p in parameters:
                p.grad = None
            h = x
            for w, b in hidden:
                h = relu(h @ w + b)
            loss = cross_entropy(h @ w_out + b_out, labels)
            loss.backward()
            return loss, [p.grad for p in parameters]

        return run

    def torch(self):
        import torch
        from torch.nn.functional import cross_entropy, linear, relu

        x, labels, parameters = self.data()
        x, labels = torch.tensor(x), torch.tensor(labels)
        # PyTorch's own layout: weights of shape (out, in), product and bias in one operation.
        parameters = [torch.tensor(np.ascontiguousarray(p.T), requires_grad=True) for p in parameters]
        *hidden, (w_out, b_out) = list(zip(parameters[::2], parameters[1::2], strict=True))

        def run():
            for p in parameters:
                p.grad = None
            h = x
            for w, b in hidden:
                h = relu(linear(h, w, b))
            loss = cross_entropy(linear(h, w_out, b_out), labels)
            loss.backward()
            return loss, [p.grad.T if p.ndim == 2 else p.grad for p in parameters]

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import value_and_grad
        from autograd.scipy.special import logsumexp

        x, labels, parameters = self.data()
        rows = np.arange(len(x))

        def loss(parameters):
            h = x
            for k in range(0, len(parameters) - 2, 2):
                h = anp.maximum(anp.dot(h, parameters[k]) + parameters[k + 1], 0)
            z = anp.dot(h, parameters[-2]) + parameters[-1]
            return anp.mean(logsumexp(z, axis=1) - z[rows, labels])

        step = value_and_grad(loss)
        return lambda: step(parameters)


class SmallClassifier(Classifier):
    name = "mlp-64"
    title = "MLP 64-64-64-10, batch 32, cross-entropy"
    goals = (Goal(0.5, ("numpy",), required=1.0), Goal(1 / 4, ("torch",)))
    sizes = (64, 64, 64, 10)
    batch = 32


class DigitClassifier(Classifier):
    name = "mlp-784"
    title = "MLP 784-256-10, batch 128, cross-entropy"
    goals = (Goal(1.0, ("numpy", "torch")), Goal(1.0, ("numpy_all", "torch_all")))
    parallel = True
    sizes = (784, 256, 10)
    batch = 128
    rtol = 1e-3


class Recurrent(Workload):
    """A tanh RNN over 50 steps, hidden 64, batch 16, inputs of 32; the loss is the mean square of the last state."""

    name = "rnn"
    title = "tanh RNN, 50 steps, hidden 64, batch 16"
    operation = "batch"
    goals = (Goal(0.7, ("numpy",)),)
    rtol = 1e-3

    inputs = tuple(normal(50, 16, 32))
    parameters = (normal(32, 64, scale=0.2), normal(64, 64, scale=0.12), normal(64, scale=0.1))
    start = np.zeros((16, 64), np.float32)

    def numpy(self):
        def run():
            wx, wh, b = self.parameters
            states = [self.start]
            for x in self.inputs:
                states.append(np.tanh(x @ wx + states[-1] @ wh + b))
            h = states[-1]
            loss = (h * h).mean()
            gwx, gwh, gb = np.zeros_like(wx), np.zeros_like(wh), np.zeros_like(b)
            g = h * (2 / h.size)
            for t in reversed(range(len(self.inputs))):
                h = states[t + 1]
                g = g * (1 - h * h)
                gwx += self.inputs[t].T @ g
                gwh += states[t].T @ g
                gb += g.sum(axis=0)
                g = g @ wh.T
            return loss, (gwx, gwh, gb)

        return run

    def hookgrad(self):
        inputs = [hg.tensor(x) for x in self.inputs]
        wx, wh, b = parameters = [hg.tensor(p, requires_grad=True) for p in self.parameters]
        start = hg.tensor(self.start)

        def run():
            for p in parameters:
                p.grad = None
            h = start
            for x in inputs:
                h = hg.tanh(x @ wx + h @ wh + b)
            loss = (h * h).mean()
            loss.backward()
            return loss, [p.grad for p in parameters]

        return run

    def torch(self):
        import torch

        inputs = [torch.tensor(x) for x in self.inputs]
        wx, wh, b = parameters = [torch.tensor(p, requires_grad=True) for p in self.parameters]
        start = torch.tensor(self.start)

        def run():
            for p in parameters:
                p.grad = None
            h = start
            for x in inputs:
                h = torch.tanh(x @ wx + h @ wh + b)
            loss = (h * h).mean()
            loss.backward()
            return loss, [p.grad for p in parameters]

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import value_and_grad

        def loss(parameters):
            wx, wh, b = parameters
            h = self.start
            for x in self.inputs:
                h = anp.tanh(anp.dot(x, wx) + anp.dot(h, wh) + b)
            return anp.mean(h * h)

        step = value_and_grad(loss)
        return lambda: step(self.parameters)


NETWORKS = (SmallClassifier(), DigitClassifier(), Recurrent())
