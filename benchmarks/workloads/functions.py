"""Functions of a few numbers, as optimizers call them."""

import numpy as np

import hookgrad as hg
from benchmarks.workloads.base import Goal, Workload, normal


def rosenbrock(x):
    """The sum of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2, for the arrays of any library."""
    valley = x[1:] - x[:-1] ** 2
    return (100.0 * valley**2 + (1.0 - x[:-1]) ** 2).sum()


class RosenbrockGradient(Workload):
    """Value and gradient of the Rosenbrock function of 10 float64."""

    name = "rosenbrock"
    title = "Rosenbrock, 10 float64, gradient"
    goals = (Goal(1 / 8, ("torch",)),)
    rtol = 1e-10

    x = normal(10, dtype=np.float64)

    def numpy(self):
        def run(x=self.x):
            head = x[:-1]
            valley = x[1:] - head**2
            rest = 1 - head
            loss = (100 * valley**2 + rest**2).sum()
            grad = np.zeros_like(x)
            grad[1:] = 200 * valley
            grad[:-1] -= 400 * head * valley + 2 * rest
            return loss, (grad,)

        return run

    def hookgrad(self):
        x = hg.tensor(self.x, requires_grad=True)

        def run():
            loss = rosenbrock(x)
            return loss, hg.grad(loss, x)

        return run

    def torch(self):
        import torch

        x = torch.tensor(self.x, requires_grad=True)

        def run():
            loss = rosenbrock(x)
            return loss, torch.autograd.grad(loss, x)

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import value_and_grad

        def function(x):
            valley = x[1:] - x[:-1] ** 2
            return anp.sum(100.0 * valley**2 + (1.0 - x[:-1]) ** 2)

        step = value_and_grad(function)

        def run():
            loss, grad = step(self.x)
            return loss, (grad,)

        return run


class RosenbrockHessian(Workload):
    """The product of its Hessian with a vector, as the gradient of the gradient's product with it."""

    name = "rosenbrock-hvp"
    title = "Rosenbrock, 10 float64, Hessian-vector product"
    goals = (Goal(1 / 5, ("torch",)),)
    rtol = 1e-10

    x = normal(10, dtype=np.float64)
    v = normal(10, dtype=np.float64, seed=1)

    def numpy(self):
        def run(x=self.x, v=self.v):
            head, v_head, v_tail = x[:-1], v[:-1], v[1:]
            product = np.zeros_like(x)
            product[:-1] = (1200 * head**2 - 400 * x[1:] + 2) * v_head - 400 * head * v_tail
            product[1:] += 200 * v_tail - 400 * head * v_head
            return product, ()

        return run

    def hookgrad(self):
        x, v = hg.tensor(self.x, requires_grad=True), hg.tensor(self.v)

        def run():
            (g,) = hg.grad(rosenbrock(x), x, create_graph=True)
            (product,) = hg.grad((g * v).sum(), x)
            return product, ()

        return run

    def torch(self):
        import torch

        x, v = torch.tensor(self.x, requires_grad=True), torch.tensor(self.v)

        def run():
            (g,) = torch.autograd.grad(rosenbrock(x), x, create_graph=True)
            (product,) = torch.autograd.grad((g * v).sum(), x)
            return product, ()

        return run

    def autograd(self):
        import autograd.numpy as anp
        from autograd import grad

        def function(x):
            valley = x[1:] - x[:-1] ** 2
            return anp.sum(100.0 * valley**2 + (1.0 - x[:-1]) ** 2)

        gradient = grad(function)
        product = grad(lambda x, v: anp.sum(gradient(x) * v))
        return lambda: (product(self.x, self.v), ())


FUNCTIONS = (RosenbrockGradient(), RosenbrockHessian())
