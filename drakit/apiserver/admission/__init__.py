"""Admission: what the control plane fills in and refuses after authorization and before validation.

One module per subject; `access` lists them in Kubernetes' order. Each is an Admission of `apiserver.auth`.
"""
