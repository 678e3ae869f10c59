package ccm

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// identityWith returns the clients that flags make.
func identityWith(t *testing.T, flags ...string) identities {
	t.Helper()
	options, err := newOptions(newProgram(nil))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := options.flags()
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections.FlagSets {
		section.ParseErrorsAllowlist.UnknownFlags = true // each section knows its own
		if err := section.Parse(append(flags, "--master=https://127.0.0.1:1")); err != nil {
			t.Fatal(err)
		}
	}
	config, err := options.kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	identity, err := newIdentities(config, false, "", newFence())
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// eachClient hands every client of the process to a function: those of the API server's core objects and of Leases.
func eachClient(t *testing.T, identity identities, look func(name string, client rest.Interface)) {
	t.Helper()
	clients := map[string]kubernetes.Interface{"the manager's, which writes events": identity.client}
	for _, controller := range builtin() {
		client, err := identity.clientOf(controller.clientName())
		if err != nil {
			t.Fatal(err)
		}
		clients[controller.Name] = client
	}
	for name, client := range clients {
		look(name+", core", client.CoreV1().RESTClient())
		look(name+", leases", client.CoordinationV1().RESTClient())
	}
}

func TestNoClientThrottlesItself(t *testing.T) {
	eachClient(t, identityWith(t), func(name string, client rest.Interface) {
		if limiter := client.GetRateLimiter(); limiter != nil {
			t.Errorf("the client of %s is held to %v requests a second", name, limiter.QPS())
		}
	})
	eachClient(t, identityWith(t, "--kube-api-qps=5", "--kube-api-burst=7"), func(name string, client rest.Interface) {
		if limiter := client.GetRateLimiter(); limiter == nil || limiter.QPS() != 5 {
			t.Errorf("the client of %s has the limit %v, want 5 requests a second", name, limiter)
		}
	})
}

// TestClientsSpeakProtobuf: the manager's cache and the controllers' writes leave the choice to controller-runtime, which uses
// protobuf for all types that have it; the clients of client-go are told.
func TestClientsSpeakProtobuf(t *testing.T) {
	identity := identityWith(t)
	if got := identity.kubeconfig.ContentType; got != runtime.ContentTypeProtobuf {
		t.Errorf("client-go's clients speak %q", got)
	}
	if got := negotiated(identity.kubeconfig); got.ContentType != "" || got.QPS != defaultQPS {
		t.Errorf("controller-runtime's clients are told to speak %q, at %v requests a second", got.ContentType, got.QPS)
	}
}
