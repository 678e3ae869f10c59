package ccm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/names"
)

const (
	// longestMessage bounds the message of an event. The API server takes 1,024 bytes.
	longestMessage = 1024
	// omitted ends a message that was longer.
	omitted = " ... (the log has all of it)"
)

// configReporter makes events of whether this replica uses the cloud config as it is now.
type configReporter struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	// about is the object that the events are on. ref is the reference to the object of the cloud config, if the events are on that object.
	about corev1.ObjectReference
	ref   *configRef
	host  string

	mu sync.Mutex
	// failure is what was reported last, if anything was.
	failure  error
	reported bool
	wake     chan struct{}
}

// newConfigReporter returns a reporter that writes by a client which is not behind the fence: standbys refuse a config too.
func (c *config) newConfigReporter(client kubernetes.Interface, sink *events) *configReporter {
	host := hostname()
	return &configReporter{
		client: client, about: c.configAbout(), ref: c.configObject, host: host, wake: make(chan struct{}, 1),
		recorder: sink.warnings.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: programName, Host: host}),
	}
}

// hostname is the name of this replica in events: its pod's, or its machine's.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// configAbout is the object that events about the cloud config are on.
func (c *config) configAbout() corev1.ObjectReference {
	if ref := c.configObject; ref != nil {
		return corev1.ObjectReference{APIVersion: "v1", Kind: ref.kind(), Namespace: ref.namespace, Name: ref.name}
	}
	return c.leaseAbout()
}

// leaseAbout is the Lease of the leader election, as what events are on.
func (c *config) leaseAbout() corev1.ObjectReference {
	lease := c.component.Generic.LeaderElection
	return corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Namespace: cmp.Or(lease.ResourceNamespace, metav1.NamespaceSystem), Name: cmp.Or(lease.ResourceName, programName),
	}
}

// report is provider.Replica.ReportConfig.
func (r *configReporter) report(failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.reported = failure, true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run writes events until ctx ends: one for each report, and of a refusal again and again.
func (r *configReporter) run(ctx context.Context) {
	repeat := time.NewTicker(names.RefusalLifetime / 3)
	defer repeat.Stop()
	for {
		again := false
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-repeat.C:
			again = true
		}
		r.mu.Lock()
		failure, reported := r.failure, r.reported
		r.mu.Unlock()
		switch {
		case !reported || again && failure == nil:
		case failure != nil:
			about := r.object(ctx)
			r.recorder.Event(&about, corev1.EventTypeWarning, names.ReasonCloudConfigRefused, refusal(r.host, "keeps the previous cloud config", failure))
		default:
			about := r.object(ctx)
			r.recorder.Event(&about, corev1.EventTypeNormal, names.ReasonCloudConfigTaken, fmt.Sprintf("%s uses the cloud config", r.host))
		}
	}
}

// refusal is the message of names.ReasonCloudConfigRefused: which replica does what, and why.
func refusal(host, does string, why error) string {
	message := fmt.Sprintf("%s %s: %v", host, does, why)
	if len(message) > longestMessage {
		message = message[:longestMessage-len(omitted)] + omitted
	}
	return message
}

// object is what the events are on, with its UID if it can be read: kubectl describe shows the events of a UID.
func (r *configReporter) object(ctx context.Context) corev1.ObjectReference {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	about := r.about
	if r.ref != nil {
		if _, meta, err := r.ref.get(ctx, r.client); err == nil {
			about.UID = meta.UID
		}
		return about
	}
	if lease, err := r.client.CoordinationV1().Leases(about.Namespace).Get(ctx, about.Name, metav1.GetOptions{}); err == nil {
		about.UID = lease.UID
	}
	return about
}

// sayRefused makes the event of a start-up that ends because of what the object of the cloud config holds. A file has none: nothing of
// the API server is known to work yet.
func (c *config) sayRefused(ctx context.Context, client kubernetes.Interface, refused error) {
	if c.configObject == nil || ctx.Err() != nil {
		return
	}
	host := hostname()
	reporter := &configReporter{client: client, about: c.configAbout(), ref: c.configObject}
	about, now := reporter.object(ctx), metav1.Now()
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	_, err := client.CoreV1().Events(about.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: about.Name + ".", Namespace: about.Namespace},
		InvolvedObject: about, Reason: names.ReasonCloudConfigRefused, Message: refusal(host, "does not start with the cloud config", refused), Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: programName, Host: host},
		FirstTimestamp: now, LastTimestamp: now, Count: 1, ReportingController: programName, ReportingInstance: host,
	}, metav1.CreateOptions{})
	if err != nil {
		log.FromContext(ctx).Info("The event about the cloud config is not written", "reason", err.Error())
	}
}
