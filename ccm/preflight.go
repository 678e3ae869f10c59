package ccm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// retry is how often it is looked again at what does not work yet: an API server that does not answer, an object of the cloud config that is not
	// there, credentials that are refused.
	retry = time.Second
	// patience is for how long that may pass by itself: an object may be applied together with the manager, and client-go reads a token file again
	// within a minute. The log says once in that time that the start-up waits.
	patience = time.Minute
)

// waitForAPIServer blocks until the API server says that it is healthy, however long that takes: a manager that gives up
// is started again by its kubelet, only later each time. It returns an error only when ctx ends.
func waitForAPIServer(ctx context.Context, identity identities) error {
	var said time.Time
	started := time.Now()
	return wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		err := healthy(ctx, identity.client)
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() == nil && time.Since(said) >= patience:
			said = time.Now()
			log.FromContext(ctx).Info("Waiting for the API server", "url", identity.kubeconfig.Host,
				"waited", time.Since(started).Round(time.Second).String(), "reason", err.Error())
		}
		return false, nil
	})
}

// healthy asks the API server for its health.
func healthy(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	body, err := client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Raw()
	if apierrors.IsInternalError(err) && len(body) > 0 {
		return fmt.Errorf("%w: %s", err, body)
	}
	return err
}

// checkGrants ends the start-up if a right is missing that the manager or an enabled controller needs, and names all that
// are. What is missing but not needed is logged.
func checkGrants(ctx context.Context, identity identities, c *config, plugin cloudprovider.Interface) error {
	own := append(managerGrants(c), grantsOf(provider.CapabilitiesOf(plugin).Rules)...)
	if c.dryRun != nil {
		own = toRead(own)
	}
	writes := map[string][]Grant{}
	for _, controller := range c.enabled {
		reading, writing := split(controller.Grants)
		own = append(own, reading...)
		if c.dryRun != nil {
			continue
		}
		if controller.managerGrants != nil {
			own = append(own, controller.managerGrants(c)...)
		}
		writes[controller.clientName()] = append(writes[controller.clientName()], writing...)
	}
	clientNames := slices.Sorted(maps.Keys(writes))
	if !identity.separate {
		for _, clientName := range clientNames {
			own = append(own, writes[clientName]...)
		}
		clientNames = nil
	}
	if c.separateElection {
		client, err := kubernetes.NewForConfig(c.election)
		if err != nil {
			return fmt.Errorf("client for the API server %s: %w", c.election.Host, err)
		}
		if err := demand(ctx, client, electionGrants(c)); err != nil {
			return fmt.Errorf("--%s: %w", electionKubeconfigFlag, err)
		}
	}
	// Without its own rights the manager cannot make the other identities, so those are reported first.
	if err := demand(ctx, identity.client, own); err != nil {
		return err
	}
	var errs []error
	for _, clientName := range clientNames {
		client, err := identity.clientOf(clientName)
		if err != nil {
			return err
		}
		errs = append(errs, demand(ctx, client, writes[clientName]))
	}
	return joined(missingHeading, errs...)
}

// missingHeading says what to do about missing grants.
const missingHeading = "missing RBAC grants (deploy/rbac.yaml holds the ClusterRole and the Roles that grant them)"

// demand returns an error that names all grants that the client's identity needs and lacks.
func demand(ctx context.Context, client kubernetes.Interface, grants []Grant) error {
	missing, err := missingGrants(ctx, client, grants)
	if err != nil {
		return err
	}
	var errs []error
	said := sets.New[string]()
	for _, lack := range missing {
		switch text := lack.Error(); {
		case said.Has(text):
		case lack.grant.Without == "":
			errs = append(errs, lack)
			said.Insert(text)
		default:
			log.FromContext(ctx).Info("An optional RBAC grant is missing", "missing", text, "consequence", lack.grant.Without)
			said.Insert(text)
		}
	}
	return joined(missingHeading, errs...)
}

// grantsOf returns the rights that the provider asks for itself.
func grantsOf(rules []rbacv1.PolicyRule) []Grant {
	var grants []Grant
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				grants = append(grants, Grant{Group: group, Resource: resource, Verbs: rule.Verbs})
			}
		}
	}
	return grants
}

// managerGrants are the rights that the manager itself needs, whatever controllers run.
func managerGrants(c *config) []Grant {
	grants := []Grant{{Resource: "events", Verbs: []string{"create", "patch"}, Without: "no events are written"}}
	grants = append(grants, c.configObject.grants()...)
	if !c.separateElection {
		grants = append(grants, electionGrants(c)...)
	}
	if c.component.KubeCloudShared.UseServiceAccountCredentials {
		grants = append(grants, identityGrants(c.enabled, c.serviceAccountPrefix)...)
	}
	return grants
}

// electionGrants are the rights that leader election needs in the cluster that has its Leases.
func electionGrants(c *config) []Grant {
	election := c.component.Generic.LeaderElection
	if !election.LeaderElect {
		return nil
	}
	grants := leaseGrants(election.ResourceNamespace, election.ResourceName)
	if len(c.migrated) > 0 {
		grants = append(grants, leaseGrants(election.ResourceNamespace, c.component.Generic.LeaderMigration.LeaderName)...)
	}
	return append(grants, podGrants(c.pod)...)
}

// identityGrants are the rights that it takes to act as the ServiceAccounts of controllers. They are asked for by name: who may
// have a token of any ServiceAccount in kube-system may do whatever the most powerful one there may. Accounts with a prefix come with
// their roles, from the operator who installs this: nothing is created then.
func identityGrants(controllers []Controller, prefix string) []Grant {
	var grants []Grant
	if prefix == "" {
		grants = append(grants, Grant{Resource: "serviceaccounts", Namespace: metav1.NamespaceSystem, Verbs: []string{"create"}})
	}
	names := sets.New[string]()
	for _, controller := range controllers {
		names.Insert(prefix + controller.clientName())
	}
	for _, name := range sets.List(names) {
		grants = append(grants,
			Grant{Resource: "serviceaccounts", Namespace: metav1.NamespaceSystem, Name: name, Verbs: []string{"get"}},
			Grant{Resource: "serviceaccounts/token", Namespace: metav1.NamespaceSystem, Name: name, Verbs: []string{"create"}})
	}
	return grants
}

// leaseGrants are the rights that leader election by one Lease needs.
func leaseGrants(namespace, name string) []Grant {
	watching := leaseGrant(namespace, name, "list", "watch")
	watching.Without = "a standby notices a released lease only when it asks the next time, so a takeover takes seconds longer"
	return append(recordGrants(namespace, name, ""), watching)
}

// recordGrants are the rights that keeping a record in a Lease needs.
func recordGrants(namespace, name, without string) []Grant {
	creating, keeping := leaseGrant(namespace, "", "create"), leaseGrant(namespace, name, "get", "update")
	creating.Without, keeping.Without = without, without
	return []Grant{creating, keeping}
}

func leaseGrant(namespace, name string, verbs ...string) Grant {
	return Grant{Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: name, Verbs: verbs}
}

// Grant is a right that is needed, in the terms of RBAC.
//
// Everything is read through the manager's cache, so the verbs get, list and watch are asked for the manager's own identity,
// all others for the controller's. The two differ with --use-service-account-credentials only.
type Grant struct {
	// Group is the API group; empty is the core group.
	Group string
	// Resource is the plural resource, with a subresource after a slash: "nodes", "nodes/status".
	Resource string
	// Namespace restricts the grant to one namespace. Empty: cluster-wide.
	Namespace string
	// Name restricts the grant to one object. Empty: all.
	Name string
	// Verbs are what is needed: "get", "patch".
	Verbs []string
	// Without says what does not work without the grant, for a grant that the start-up can do without: it is then logged.
	// Empty: the start-up ends if the grant is missing.
	Without string
}

// reads reports whether the manager's cache needs a verb.
func reads(verb string) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) }

// split parts a controller's grants into what the manager's identity needs and what the controller's needs.
func split(grants []Grant) (manager, controller []Grant) {
	for _, grant := range grants {
		reading, writing := grant, grant
		reading.Verbs, writing.Verbs = nil, nil
		for _, verb := range grant.Verbs {
			if reads(verb) {
				reading.Verbs = append(reading.Verbs, verb)
			} else {
				writing.Verbs = append(writing.Verbs, verb)
			}
		}
		if len(reading.Verbs) > 0 {
			manager = append(manager, reading)
		}
		if len(writing.Verbs) > 0 {
			controller = append(controller, writing)
		}
	}
	return manager, controller
}

// missingGrant is one verb of one grant that an identity does not have.
type missingGrant struct {
	user, verb string
	grant      Grant
}

// Error reads like the API server's own message for a refused request.
func (m missingGrant) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s may not %s %s", m.user, m.verb, m.grant.Resource)
	if m.grant.Group != "" {
		fmt.Fprintf(&text, ".%s", m.grant.Group)
	}
	if m.grant.Name != "" {
		fmt.Fprintf(&text, " %q", m.grant.Name)
	}
	if m.grant.Namespace != "" {
		fmt.Fprintf(&text, " in namespace %s", m.grant.Namespace)
	}
	return text.String()
}

// missingGrants asks the API server which of the grants the client's identity lacks.
func missingGrants(ctx context.Context, client kubernetes.Interface, grants []Grant) ([]missingGrant, error) {
	if len(grants) == 0 {
		return nil, nil
	}
	user, err := whoAmI(ctx, client)
	if err != nil {
		return nil, err
	}
	var missing []missingGrant
	for _, grant := range grants {
		for _, verb := range grant.Verbs {
			allowed, err := may(ctx, client, verb, grant)
			if err != nil {
				return nil, fmt.Errorf("asking the API server whether %s may %s %s: %w", user, verb, grant.Resource, err)
			}
			if !allowed {
				missing = append(missing, missingGrant{user: user, verb: verb, grant: grant})
			}
		}
	}
	return missing, nil
}

// may asks for one verb.
func may(ctx context.Context, client kubernetes.Interface, verb string, grant Grant) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	resource, subresource, _ := strings.Cut(grant.Resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: grant.Group, Resource: resource, Subresource: subresource,
			Namespace: grant.Namespace, Name: grant.Name, Verb: verb,
		},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// whoAmI returns the name under which the API server knows the client.
func whoAmI(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) { // before Kubernetes 1.28
		return "this process", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking the API server who this process is to it: %w", err)
	}
	return cmp.Or(review.Status.UserInfo.Username, "(no name)"), nil
}
