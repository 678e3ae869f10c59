package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/ccm"
)

// The whole program of a vendor whose package registers its provider. It has to import that package.
func ExampleMain() {
	ccm.Main()
}

// A program gives flags of the manager its own defaults. --help shows them, and the command line wins.
func ExampleWithDefaults() {
	command := ccm.NewCommand(ccm.WithDefaults(map[string]string{"cloud-provider": "mycloud"}))
	fmt.Println(command.Flags().Lookup("cloud-provider").DefValue)
	// Output: mycloud
}

// A provider whose constructor takes more than a cloud config, with a flag of its own. What is wrong with the values of such flags is
// said together with what is wrong with others.
func ExampleWithProvider() {
	var token string
	command := ccm.NewCommand(
		ccm.WithProvider("mycloud", func(_ context.Context, environment ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
			nodes := environment.Informers.Core().V1().Nodes().Lister()
			return newCloud(token, environment.ClusterCIDRs, nodes)
		}),
		ccm.WithFlags(ccm.Flags{
			Section: "mycloud",
			Add:     func(flags *pflag.FlagSet) { flags.StringVar(&token, "mycloud-token-file", "", "File with the token.") },
			Validate: func() []error {
				if token == "" {
					return []error{errors.New("--mycloud-token-file: required")}
				}
				return nil
			},
		}),
	)
	command.SetArgs([]string{"--cloud-provider=mycloud", "--cloud-api-qps=-1"})
	fmt.Println(command.ExecuteContext(context.Background()))
	// Output:
	// invalid flags:
	//   --cloud-api-qps: Invalid value: -1: must be 0 or a positive number
	//   --mycloud-token-file: required
}

// A cloud without routes has no use for the controller of routes. The names of all controllers are in the help of --controllers.
func ExampleRemoveController() {
	command := ccm.NewCommand(ccm.RemoveController("route"), ccm.DisableController("service"))
	_, help, _ := strings.Cut(command.Flags().Lookup("controllers").Usage, "Disabled-by-default controllers: ")
	fmt.Println(help)
	// Output: service-lb-controller
}

// A controller that labels nodes, written with controller-runtime's builder.
func ExampleWithController() {
	command := ccm.NewCommand(ccm.WithController(ccm.Controller{
		Name:   "label-controller",
		Grants: []ccm.Grant{{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}}},
		New: func(_ context.Context, environment ccm.Environment) (manager.Runnable, error) {
			label := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				var node corev1.Node
				if err := environment.Client.Get(ctx, request.NamespacedName, &node); err != nil {
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}
				original := node.DeepCopy()
				node.Labels["example.com/seen"] = "true"
				return ctrl.Result{}, environment.Client.Patch(ctx, &node, client.MergeFrom(original))
			})
			return nil, ctrl.NewControllerManagedBy(environment.Manager).Named("label-controller").For(&corev1.Node{}).Complete(label)
		},
	}))
	fmt.Println(strings.Contains(command.Flags().Lookup("controllers").Usage, "label-controller"))
	// Output: true
}

// newCloud stands for a vendor's constructor.
func newCloud(...any) (cloudprovider.Interface, error) {
	return nil, errors.New("not part of this example")
}
