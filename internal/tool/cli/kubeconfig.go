package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig says how a command reaches a cluster, as kubectl does: --kubeconfig, $KUBECONFIG, ~/.kube/config, or the ServiceAccount of a pod.
type Kubeconfig struct {
	// File and Context are the values of the flags.
	File, Context string
}

// AddFlags adds the flags. Shells complete the names of contexts.
func (k *Kubeconfig) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&k.File, "kubeconfig", k.File, "`file` with access to the cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&k.Context, "context", k.Context, "`name` of the context of the kubeconfig to use")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		loader, _ := k.loader()
		raw, err := loader.RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

// Config returns how to reach the API server. Its error names the files that were tried, and ends a command with ExitUnseen.
func (k *Kubeconfig) Config() (*rest.Config, error) {
	loader, tried := k.loader()
	config, err := loader.ClientConfig()
	if err == nil {
		return config, nil
	}
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no such file, or no cluster in it")
	}
	if k.File != "" {
		return nil, Unseen(fmt.Errorf("--kubeconfig %s: %w", k.File, err))
	}
	return nil, Unseen(fmt.Errorf("no access to a cluster, set --kubeconfig or $KUBECONFIG: %s: %w", strings.Join(tried, ", "), err))
}

// ClusterName is what the kubeconfig calls the cluster; empty if it does not, as within a pod.
func (k *Kubeconfig) ClusterName() string {
	loader, _ := k.loader()
	raw, err := loader.RawConfig()
	if err != nil {
		return ""
	}
	if current, found := raw.Contexts[cmp.Or(k.Context, raw.CurrentContext)]; found {
		return current.Cluster
	}
	return ""
}

// loader reads the kubeconfig, and names the files that it tries.
func (k *Kubeconfig) loader() (loader clientcmd.ClientConfig, tried []string) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.File
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: k.Context}), rules.Precedence
}
