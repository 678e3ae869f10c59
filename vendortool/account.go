package vendortool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
)

// account is a provider and where its account is.
type account struct {
	provider, config          string
	otherConfig, otherCluster string
	kubeconfig                cli.Kubeconfig
	// reads says that the command itself reads from the cluster, for which kubeconfig may say nothing: kubectl's defaults hold then.
	reads bool
	nodes []string
}

func (a account) validate() []error {
	var wrong []error
	if a.provider == "" {
		wrong = append(wrong, errors.New("--cloud-provider: required"))
	} else if err := known(a.provider); err != nil {
		wrong = append(wrong, err)
	}
	for flag, path := range map[string]string{
		"--cloud-config": a.config, "--other-cloud-config": a.otherConfig, "--kubeconfig": a.kubeconfig.File,
	} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", flag, err))
		} else if info.IsDir() {
			wrong = append(wrong, fmt.Errorf("%s: %s is a directory", flag, path))
		}
	}
	return wrong
}

// opened is an account whose provider is initialized.
type opened struct{ subject *conformance.Subject }

// factory returns the same subject for all rules: there is one account.
func (o opened) factory(context.Context) (*conformance.Subject, error) { return o.subject, nil }

// open builds and initializes the provider, which runs until stop is closed, and finds the instances that rules look at.
func (a account) open(ctx context.Context, stop <-chan struct{}) (opened, error) {
	cloud, err := a.start(a.config, stop)
	if err != nil {
		return opened{}, err
	}
	subject := &conformance.Subject{Cloud: cloud}
	for _, name := range a.nodes {
		subject.Instances = append(subject.Instances, conformance.Instance{NodeName: types.NodeName(name)})
	}
	if len(a.nodes) == 0 {
		if subject.Instances, err = firstListed(ctx, cloud); err != nil {
			return opened{}, err
		}
	}
	if a.otherConfig != "" {
		other, err := a.start(a.otherConfig, stop)
		if err != nil {
			return opened{}, err
		}
		subject.Hooks.OtherCluster = func(context.Context) (cloudprovider.Interface, string, error) { return other, a.otherCluster, nil }
	}
	return opened{subject}, nil
}

// start builds a provider from a file, and initializes it as the manager does.
func (a account) start(path string, stop <-chan struct{}) (cloudprovider.Interface, error) {
	var config io.Reader
	if path != "" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cloud config: %w", err)
		}
		defer func() { _ = file.Close() }()
		config = file
	}
	cloud, err := cloudprovider.GetCloudProvider(a.provider, config)
	if err == nil && cloud == nil {
		err = errors.New("it built nothing, and no error")
	}
	if err != nil {
		return nil, fmt.Errorf("cloud provider %q, cloud config %q: %w", a.provider, path, err)
	}
	cluster, err := a.cluster()
	if err != nil {
		return nil, err
	}
	user, informed := cloud.(cloudprovider.InformerUser)
	if informed && !a.hasCluster() {
		return nil, fmt.Errorf("cloud provider %q reads from the cluster: set --kubeconfig", a.provider)
	}
	cloud.Initialize(cluster, stop)
	if informed {
		client, err := cluster.Client("conformance")
		if err != nil {
			return nil, fmt.Errorf("client of the cluster: %w", err)
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		user.SetInformers(factory)
		factory.Start(stop)
	}
	return cloud, nil
}

// cluster returns what the provider gets clients of the cluster from. Without a kubeconfig their calls fail: .invalid is a name
// that never resolves (RFC 2606).
func (a account) cluster() (cloudprovider.ControllerClientBuilder, error) {
	config := &rest.Config{Host: "https://set-kubeconfig.invalid"}
	if a.hasCluster() {
		var err error
		if config, err = a.kubeconfig.Config(); err != nil {
			return nil, err
		}
	}
	return clientbuilder.SimpleControllerClientBuilder{ClientConfig: config}, nil
}

// hasCluster reports whether there is a cluster for the provider to read from.
func (a account) hasCluster() bool { return a.reads || a.kubeconfig.File != "" }

// errEnough ends a listing of which enough was seen.
var errEnough = errors.New("enough instances")

// firstListed returns two instances that run, if the provider lists instances and knows their nodes.
func firstListed(ctx context.Context, cloud cloudprovider.Interface) ([]conformance.Instance, error) {
	list := provider.CapabilitiesOf(cloud).ListInstances
	if list == nil {
		return nil, nil
	}
	var found []conformance.Instance
	err := list(ctx, func(page []provider.Instance) error {
		for _, instance := range page {
			if instance.NodeName != "" && instance.State == provider.InstanceRunning {
				found = append(found, conformance.Instance{NodeName: instance.NodeName, ProviderID: instance.ProviderID})
			}
			if len(found) == 2 {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("listing instances, of which --node names none: %w", err)
	}
	return found, nil
}
