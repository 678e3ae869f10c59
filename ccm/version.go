package ccm

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version/verflag"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/mooring-ccm/mooring/internal/version"
)

// printVersion prints the version if --version asks for it, and reports whether it did. The flag is the reference's, whose own text
// has a version only if the linker was given one.
func printVersion(out io.Writer, flags *pflag.FlagSet) (bool, error) {
	flag := flags.Lookup("version")
	if flag == nil {
		return false, nil
	}
	switch value := flag.Value.String(); {
	case value == string(verflag.VersionRaw):
		_, err := fmt.Fprintf(out, "%#v\n", rawVersion(version.Get()))
		return true, err
	case value == string(verflag.VersionTrue):
		_, err := fmt.Fprintln(out, version.Get())
		return true, err
	}
	return false, nil // Of any other value, the flag has set the version that the libraries report.
}

// rawVersion is the version in the type that --version=raw shows in programs of Kubernetes.
func rawVersion(info version.Info) apimachineryversion.Info {
	state := "clean"
	if strings.HasSuffix(info.Commit, "-dirty") {
		state = "dirty"
	}
	parts := strings.SplitN(strings.TrimPrefix(info.Kubernetes, "v"), ".", 3)
	return apimachineryversion.Info{
		Major: parts[0], Minor: parts[1], GitVersion: info.GitVersion(), GitCommit: strings.TrimSuffix(info.Commit, "-dirty"),
		GitTreeState: state, BuildDate: info.Date, GoVersion: info.Go, Compiler: "gc", Platform: info.Platform,
	}
}

// stampedBuilder is a builder of clients whose user agents name the version of Mooring.
type stampedBuilder struct {
	clientbuilder.ControllerClientBuilder
	// accounts begins the names of the ServiceAccounts; user agents are without.
	accounts string
}

// Config implements clientbuilder.ControllerClientBuilder.
func (b stampedBuilder) Config(name string) (*rest.Config, error) {
	config, err := b.ControllerClientBuilder.Config(b.accounts + name)
	if err != nil {
		return nil, err
	}
	return version.AddUserAgent(config, name), nil
}

// ConfigOrDie implements clientbuilder.ControllerClientBuilder.
func (b stampedBuilder) ConfigOrDie(name string) *rest.Config {
	return version.AddUserAgent(b.ControllerClientBuilder.ConfigOrDie(b.accounts+name), name)
}

// Client implements clientbuilder.ControllerClientBuilder.
func (b stampedBuilder) Client(name string) (kubernetes.Interface, error) {
	config, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// ClientOrDie implements clientbuilder.ControllerClientBuilder.
func (b stampedBuilder) ClientOrDie(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(b.ConfigOrDie(name))
}

// DiscoveryClient implements clientbuilder.ControllerClientBuilder. Discovery makes many requests at once, so it has the limits
// that clientbuilder gives it.
func (b stampedBuilder) DiscoveryClient(name string) (discovery.DiscoveryInterface, error) {
	config, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	config.Burst, config.QPS = 200, 20
	return kubernetes.NewForConfig(config)
}

// DiscoveryClientOrDie implements clientbuilder.ControllerClientBuilder.
func (b stampedBuilder) DiscoveryClientOrDie(name string) discovery.DiscoveryInterface {
	config := b.ConfigOrDie(name)
	config.Burst, config.QPS = 200, 20
	return kubernetes.NewForConfigOrDie(config)
}
