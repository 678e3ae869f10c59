package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
)

// outage is how long keystone is away at least.
const outage = time.Minute

// login is the path of a login.
const login = "/v3/auth/tokens"

// rotate gives the manager of one cluster another application credential, and revokes the one that it had.
func (w *project) rotate(t *testing.T) {
	s := w.harbor
	old := s.credentials
	var err error
	s.credentials, err = w.cloud.CreateApplicationCredential(t.Context(), w.tenant, "rotated")
	must.NoError(t, err)
	w.cloud.Faults().Reset()
	s.configure(t)
	must.NoError(t, w.cloud.DeleteApplicationCredential(t.Context(), w.tenant, old))
	s.create(t, "rotated", toFront) // which needs a login at once
	until(t, "the manager logs in with the new credential", func(context.Context) error {
		for _, call := range w.cloud.Faults().Calls() {
			if call.Path == login && call.Status == http.StatusCreated {
				return nil
			}
		}
		return errors.New("no login succeeded")
	})
	s.awaitServed(t, "rotated")
}

// reserved is the address that the interrupted Service asks for.
const reserved = "192.168.3.200"

// killWorker kills octavia's worker while it creates a load balancer. What is asked of it until it is back is done then; what it was at stays
// pending until an administrator says that it has failed, and then the Service gets the address that it was to have.
func (w *project) killWorker(t *testing.T) {
	s := w.pier
	address := s.addressOf(t, "web")
	must.NoError(t, w.cloud.Pause(openstack.OctaviaWorker))
	s.create(t, "interrupted", internal, func(service *corev1.Service) { service.Spec.LoadBalancerIP = reserved })
	interrupted := s.awaitPending(t, "interrupted")
	// The worker cannot be done as long as neutron does not answer it.
	must.NoError(t, w.cloud.Pause(openstack.Neutron))
	must.NoError(t, w.cloud.Resume(openstack.OctaviaWorker))
	w.awaitBegun(t, interrupted)
	must.NoError(t, w.cloud.Kill(openstack.OctaviaWorker))
	must.NoError(t, w.cloud.Resume(openstack.Neutron))

	s.change(t, "web", func(service *corev1.Service) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "second", Port: 443})
	})
	until(t, "octavia is asked to change the load balancer of web", func(ctx context.Context) error {
		found, err := s.balancersOf(ctx, "web")
		if err == nil && (len(found) != 1 || found[0].ProvisioningStatus != "PENDING_UPDATE") {
			err = fmt.Errorf("it has %+v", found)
		}
		return err
	})
	w.harbor.create(t, "meanwhile", toFront)
	w.harbor.awaitServed(t, "meanwhile")

	must.NoError(t, w.cloud.Restart(t.Context(), openstack.OctaviaWorker))
	s.awaitServed(t, "web")
	if again := s.addressOf(t, "web"); again != address {
		t.Errorf("web had %s and has %s", address, again)
	}
	if still := s.awaitPending(t, "interrupted"); still != interrupted {
		t.Errorf("the load balancer was %s and is %s, while octavia would not let it go", interrupted, still)
	}
	must.NoError(t, w.cloud.SetLoadBalancerError(t.Context(), interrupted))
	s.awaitServed(t, "interrupted")
	if got := s.addressOf(t, "interrupted"); got != reserved {
		t.Errorf("interrupted has %s, want %s", got, reserved)
	}
}

// awaitPending waits until octavia creates a load balancer for a Service, and returns its ID.
func (s *site) awaitPending(t *testing.T, service string) (id string) {
	t.Helper()
	until(t, "octavia creates the load balancer of "+service, func(ctx context.Context) error {
		found, err := s.balancersOf(ctx, service)
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].ProvisioningStatus != "PENDING_CREATE" {
			return fmt.Errorf("it has %+v", found)
		}
		id = found[0].ID
		return nil
	})
	return id
}

// awaitBegun waits until octavia's worker has begun to create a load balancer, by its log.
func (w *project) awaitBegun(t *testing.T, balancer string) {
	t.Helper()
	until(t, "the worker has begun with "+balancer, func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(w.cloud.Dir(), "logs", string(openstack.OctaviaWorker)+".log"))
		if err == nil && !strings.Contains(string(log), "Creating load balancer '"+balancer+"'") {
			err = errors.New("its log does not say so")
		}
		return err
	})
}

// change edits a Service.
func (s *site) change(t *testing.T, name string, edit func(*corev1.Service)) {
	t.Helper()
	services := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault)
	must.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		service, err := services.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(service)
		_, err = services.Update(t.Context(), service, metav1.UpdateOptions{})
		return err
	}))
}

// withoutKeystone stops keystone for a minute. Services that validate tokens by it answer 503 meanwhile: what is there stays, and what came
// meanwhile is served when keystone is back.
func (w *project) withoutKeystone(t *testing.T) {
	must.NoError(t, w.cloud.Stop(t.Context(), openstack.Keystone))
	ends := time.After(outage)
	if _, err := w.cloud.Clients(t.Context(), w.tenant); err == nil {
		t.Error("a login succeeded during the outage")
	}
	w.harbor.register(t, lateServer)
	w.harbor.create(t, "without-keystone", toFront)
	<-ends
	must.NoError(t, w.cloud.Restart(t.Context(), openstack.Keystone))
	w.harbor.awaitInitialized(t, lateServer)
	w.awaitRoutes(t)
	w.harbor.awaitServed(t, "without-keystone")
	w.harbor.awaitServed(t, "web")
	w.pier.create(t, "with-keystone", internal)
	w.pier.awaitServed(t, "with-keystone")
}

// exceedQuota lets the project have no further load balancer. A Service that needs none is served, the other one when it may.
func (w *project) exceedQuota(t *testing.T) {
	all, err := w.balancers(t.Context())
	must.NoError(t, err)
	must.NoError(t, w.cloud.SetQuotas(t.Context(), w.tenant, openstack.Quotas{LoadBalancers: new(len(all))}))
	w.harbor.create(t, "beyond", internal, toFront)
	w.harbor.awaitEvent(t, "beyond", "quota of Load Balancer is met")
	w.harbor.change(t, "inside", func(service *corev1.Service) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "second", Port: 443})
	})
	w.harbor.awaitServed(t, "inside")
	must.NoError(t, w.cloud.SetQuotas(t.Context(), w.tenant, openstack.Quotas{LoadBalancers: new(-1)}))
	w.harbor.awaitServed(t, "beyond")
}
