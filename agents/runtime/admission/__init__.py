"""The webhook by which an annotation asks for our scheduler, where the API server has no
MutatingAdmissionPolicy.
"""
