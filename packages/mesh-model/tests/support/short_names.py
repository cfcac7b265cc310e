"""A mesh with a domain of its own, whose rules name hosts by short names."""

DOMAIN = "corp.example"
MESH = """\
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: a}
spec: {clusterIP: 10.96.0.7, ports: [{port: 80, name: http}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: a}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: a}
spec:
  hosts: [reviews]
  http: [{timeout: 3s, route: [{destination: {host: reviews, subset: v1}}]}]
"""
