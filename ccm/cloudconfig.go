package ccm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
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
func (o *options) validateCloudConfig() []error {
	if _, err := parseConfigRef(o.cloudConfigObject); err != nil {
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
