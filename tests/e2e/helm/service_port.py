"""A port of a service of Kubernetes, as a proxy on this machine."""
import random
import socket

from cutting_proxy import CuttingProxy


class ServicePort(CuttingProxy):
    """Gives each new connection to one of the pods that the API server has as ready."""

    def __init__(self, kubelet, service, number):
        self.kubelet, self.number = kubelet, number
        self.api = kubelet.plane.api("proxy")
        self.path = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=" \
            f"kubernetes.io/service-name={service}"
        super().__init__(None)

    def connect(self):
        slices = self.api.get(self.path)["items"]
        ready = [x["targetRef"]["name"] for one in slices for x in one.get("endpoints") or ()
                 if x["conditions"]["ready"]]
        # A pod that takes the name of one that has just ended may have no port yet.
        pods = [self.kubelet.pods.get(x) for x in ready]
        ports = [x.ports[self.number] for x in pods if x and self.number in x.ports]
        if not ports:
            raise ConnectionRefusedError(f"{self.path} has no pod that is ready")
        return socket.create_connection(("127.0.0.1", random.choice(ports)))
