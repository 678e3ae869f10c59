package ccm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/reconnect"
	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	cloudConfigObjectFlag = "cloud-config-object"
	// defaultConfigKey is the key that the chart uses too.
	defaultConfigKey = "cloud.yaml"
)

// configRef says which object holds the cloud config. See ADR 57.
type configRef struct {
	// secret is whether it is a Secret and not a ConfigMap.
	secret               bool
	namespace, name, key string
}

// parseConfigRef reads --cloud-config-object; nil if it is empty.
func parseConfigRef(text string) (*configRef, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		parts = append(parts, defaultConfigKey)
	}
	if len(parts) != 4 || parts[0] != "configmap" && parts[0] != "secret" {
		return nil, invalid(cloudConfigObjectFlag, text, "must be configmap/NAMESPACE/NAME or secret/NAMESPACE/NAME, with /KEY at the end if the key is not "+defaultConfigKey)
	}
	ref := &configRef{secret: parts[0] == "secret", namespace: parts[1], name: parts[2], key: parts[3]}
	var problems []string
	problems = append(problems, validation.IsDNS1123Label(ref.namespace)...)
	problems = append(problems, validation.IsDNS1123Subdomain(ref.name)...)
	problems = append(problems, validation.IsConfigMapKey(ref.key)...)
	if len(problems) > 0 {
		return nil, invalid(cloudConfigObjectFlag, text, strings.Join(problems, "; "))
	}
	return ref, nil
}

// validateCloudConfig refuses two places of one cloud config.
func (o *options) validateCloudConfig(c *config) []error {
	var err error
	if c.configObject, err = parseConfigRef(o.cloudConfigObject); err != nil {
		return []error{err}
	}
	if o.cloudConfigObject != "" && o.KubeCloudShared.CloudProvider.CloudConfigFile != "" {
		return []error{invalid(cloudConfigObjectFlag, o.cloudConfigObject, "not together with --cloud-config")}
	}
	return nil
}

// kind is the kind of the object.
func (r *configRef) kind() string {
	if r.secret {
		return "Secret"
	}
	return "ConfigMap"
}

// resource is the plural of the kind in the API.
func (r *configRef) resource() string { return strings.ToLower(r.kind()) + "s" }

// String names the object.
func (r *configRef) String() string {
	return fmt.Sprintf("%s %s/%s, key %s", r.kind(), r.namespace, r.name, r.key)
}

// grants are the rights to read the object, and no other.
func (r *configRef) grants() []Grant {
	if r == nil {
		return nil
	}
	return []Grant{{Resource: r.resource(), Namespace: r.namespace, Name: r.name, Verbs: []string{"get", "list", "watch"}}}
}

// errNoContent is that an object, or its key, is not there.
var errNoContent = errors.New("there is no cloud config")

// content returns what an object holds.
func (r *configRef) content(object runtime.Object) ([]byte, error) {
	switch holder := object.(type) {
	case *corev1.ConfigMap:
		if text, found := holder.Data[r.key]; found {
			return []byte(text), nil
		}
		if data, found := holder.BinaryData[r.key]; found {
			return data, nil
		}
	case *corev1.Secret:
		if data, found := holder.Data[r.key]; found {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%w: %s %s/%s has no key %s", errNoContent, r.kind(), r.namespace, r.name, r.key)
}

// get reads the object.
func (r *configRef) get(ctx context.Context, client kubernetes.Interface) (object runtime.Object, meta *metav1.ObjectMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	if r.secret {
		secret, err := client.CoreV1().Secrets(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
		return secret, &secret.ObjectMeta, err
	}
	configMap, err := client.CoreV1().ConfigMaps(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	return configMap, &configMap.ObjectMeta, err
}

// readConfigObject returns the object of the cloud config, read once, or nil if no object is configured. It waits for the API server as the rest of
// the start-up does, and a minute for an object that is not there.
func (c *config) readConfigObject(ctx context.Context, identity identities, watches *reconnect.Monitor, known *secrets.Set) (provider.ConfigObject, error) {
	if c.configObject == nil {
		return nil, nil
	}
	if err := waitForAPIServer(ctx, identity); err != nil {
		return nil, err
	}
	watching, err := watchingClient(watches, identity.kubeconfig)
	if err != nil {
		return nil, err
	}
	read, err := c.configObject.await(ctx, identity.client)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", cloudConfigObjectFlag, err)
	}
	known.AddConfig(read)
	c.configRead = digestOf(read)
	return &configObject{Reader: bytes.NewReader(read), configRef: c.configObject, client: watching, secrets: known, last: read}, nil
}

// await reads the content. What may pass is tried again.
func (r *configRef) await(ctx context.Context, client kubernetes.Interface) ([]byte, error) {
	var read []byte
	var last error
	said := false
	err := wait.PollUntilContextTimeout(ctx, retry, patience, true, func(ctx context.Context) (bool, error) {
		object, _, err := r.get(ctx, client)
		if err == nil {
			read, err = r.content(object)
		}
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsForbidden(err):
			return false, fmt.Errorf("reading %s, for which the verbs get, list and watch on this object are needed: %w", r, err)
		case ctx.Err() == nil && !said:
			said = true
			log.FromContext(ctx).Info("Waiting for the cloud config, a minute at most", "file", r.String(), "reason", err.Error())
		}
		last = err
		return false, nil
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("reading %s for %s: %w; apply it, or correct the flag", r, patience, last)
	}
	return read, err
}

// configObject is the object of the cloud config, as a provider is given it.
type configObject struct {
	*bytes.Reader
	*configRef
	// client watches.
	client kubernetes.Interface
	// secrets gets the credentials of each content before it is handed out.
	secrets *secrets.Set

	mu sync.Mutex
	// last is what was handed out last, nil if that was that there is nothing.
	last []byte
}

// closing is a configObject for callers that close what they read, like a file. It is a provider.ConfigObject itself.
type closing struct{ provider.ConfigObject }

// Close does nothing: the object is watched on.
func (closing) Close() error { return nil }

// Watch is provider.ConfigObject.
func (o *configObject) Watch(ctx context.Context, changed func(content []byte, gone error)) error {
	hand := func(object any) {
		o.mu.Lock()
		defer o.mu.Unlock()
		var content []byte
		err := fmt.Errorf("%w: %s %s/%s is deleted", errNoContent, o.kind(), o.namespace, o.name)
		if held, ok := object.(runtime.Object); ok {
			content, err = o.content(held)
		}
		switch {
		case err == nil && content == nil:
			content = []byte{}
		case err != nil && o.last == nil:
			return // said already
		}
		if err == nil && o.last != nil && bytes.Equal(content, o.last) {
			return
		}
		o.last = content
		o.secrets.AddConfig(content)
		changed(content, err)
	}
	var kind runtime.Object = &corev1.ConfigMap{}
	if o.secret {
		kind = &corev1.Secret{}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(o.client.CoreV1().RESTClient(), o.resource(), o.namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, o.name)),
		ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    hand,
			UpdateFunc: func(_, object any) { hand(object) },
			DeleteFunc: func(any) { hand(nil) },
		},
	})
	var running sync.WaitGroup
	running.Go(func() { controller.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) && len(store.ListKeys()) == 0 {
		hand(nil) // it went between the start and the watch
	}
	running.Wait()
	return nil
}

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
	return kit.EventMessage(fmt.Sprintf("%s %s: %v", host, does, why))
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

// programDigest is the digest of the program's file: a version may stay the same while a plugin of one's own changes.
var programDigest = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("file of this program: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("file of this program: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading the file of this program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
})

// digestOf returns the digest of a cloud config.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// origin returns the digest of what load balancers are made by: this program, its cloud config as the plugin was built from it and as it is now,
// and the name of the cluster.
func (c *config) origin(ctx context.Context, client kubernetes.Interface) (string, error) {
	program, err := programDigest()
	if err != nil {
		return "", err
	}
	var content []byte
	switch file := c.component.KubeCloudShared.CloudProvider.CloudConfigFile; {
	case c.configObject != nil:
		object, _, err := c.configObject.get(ctx, client)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", c.configObject, err)
		}
		if content, err = c.configObject.content(object); err != nil {
			return "", err
		}
	case file != "":
		if content, err = os.ReadFile(file); err != nil {
			return "", fmt.Errorf("--cloud-config: %w", err)
		}
	}
	all, err := json.Marshal([]string{program, c.configRead, digestOf(content), c.component.KubeCloudShared.ClusterName})
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return digestOf(all), nil
}
