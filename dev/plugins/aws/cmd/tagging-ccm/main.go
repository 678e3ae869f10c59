// Command tagging-ccm is what the main of AWS's cloud controller manager (cmd/aws-cloud-controller-manager in its module) is on Mooring: the
// provider, the tagging controller as it is, and the flags of both.
package main

import (
	"k8s.io/cloud-provider-aws/pkg/controllers/tagging"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider/app"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/reference"
)

func main() {
	wrapper := &tagging.ControllerWrapper{}
	tagger := reference.Controller(tagging.TaggingControllerKey, app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: tagging.TaggingControllerClientName},
		Constructor: wrapper.StartTaggingControllerWrapper,
	})
	tagger.DisabledByDefault = true
	tagger.AddFlags = wrapper.Options.AddFlags
	tagger.Validate = func() []error {
		if err := wrapper.Options.Validate(); err != nil {
			return []error{err}
		}
		return nil
	}
	tagger.Grants = []ccm.Grant{{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}}}
	ccm.Main(
		ccm.WithDefaults(map[string]string{"cloud-provider": awsv1.ProviderName}),
		ccm.WithController(tagger),
	)
}
