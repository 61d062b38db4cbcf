"""The compiled core: one concept a module, data flowing one way (see ``docs/architecture.md``)."""
