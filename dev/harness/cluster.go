package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Cluster is a control plane, seen by its administrator.
type Cluster struct {
	*localcluster.Cluster
	// Client has all rights, and does not throttle itself.
	Client *kubernetes.Clientset
}

// Of returns a control plane that runs, after the identities have got their rights.
func Of(ctx context.Context, running *localcluster.Cluster, identities ...Identity) (*Cluster, error) {
	config := running.AdminConfig()
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: running, Client: client}
	return c, c.Grant(ctx, identities...)
}

// Open starts a control plane, which runs until Stop and not only while ctx does, and gives the identities their rights.
func Open(ctx context.Context, options localcluster.Options, identities ...Identity) (*Cluster, error) {
	running, err := localcluster.Start(context.WithoutCancel(ctx), options)
	if err != nil {
		return nil, err
	}
	c, err := Of(ctx, running, identities...)
	if err != nil {
		return nil, errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Grant gives identities their rights.
func (c *Cluster) Grant(ctx context.Context, identities ...Identity) error {
	for _, identity := range identities {
		for _, rights := range identity.Rights {
			if err := c.Apply(ctx, rights); err != nil {
				return fmt.Errorf("rights of %s: %w", identity.Account, err)
			}
		}
	}
	return nil
}

// Kubeconfig returns the path of a kubeconfig with the rights of an identity.
func (c *Cluster) Kubeconfig(ctx context.Context, identity Identity) (string, error) {
	return c.ServiceAccountKubeconfig(ctx, Namespace, identity.Account)
}

// Leader returns the identity that holds Lease, or an empty string if no replica does.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	lease, err := c.Client.CoordinationV1().Leases(Namespace).Get(ctx, Lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// Led returns an error unless a replica leads that is not among the named ones.
func (c *Cluster) Led(ctx context.Context, not ...string) error {
	leader, err := c.Leader(ctx)
	if err == nil && (leader == "" || slices.Contains(not, leader)) {
		err = fmt.Errorf("the lease is held by %q", leader)
	}
	return err
}

// Initialized returns an error that names the nodes that still wait for their initialization.
func (c *Cluster) Initialized(ctx context.Context, names ...string) error {
	var errs []error
	for _, name := range names {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && ownership.Uninitialized(node) {
			err = fmt.Errorf("node %s is not initialized: its taints are %v", name, node.Spec.Taints)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Mark is a place in the record of what the API server has answered.
type Mark int

// Mark returns the end of that record.
func (c *Cluster) Mark(ctx context.Context) (Mark, error) {
	events, err := c.AuditEvents(ctx)
	return Mark(len(events)), err
}

// Requests returns a user's answered requests since a mark, in the order of the answers.
func (c *Cluster) Requests(ctx context.Context, user string, since Mark) ([]auditv1.Event, error) {
	events, err := c.AuditEvents(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(events[since:]), func(event auditv1.Event) bool {
		return event.User.Username != user || event.Stage != auditv1.StageResponseComplete
	}), nil
}

// What names a request: "patch nodes/status", or "get /readyz" for one that is about no resource.
func What(event auditv1.Event) string {
	object := event.ObjectRef
	if object == nil {
		path, _, _ := strings.Cut(event.RequestURI, "?")
		return event.Verb + " " + path
	}
	return strings.TrimSuffix(event.Verb+" "+object.Resource+"/"+object.Subresource, "/")
}
