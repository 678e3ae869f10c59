package chart_test

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

// TestAutoscaler has one value run the controller, with the files of the Secret and a Service; without it there is none of that.
func TestAutoscaler(t *testing.T) {
	for values, controllers := range map[string]string{
		"":                       "--controllers=*,cluster-autoscaler-provider",
		"controllers: [service]": "--controllers=service,cluster-autoscaler-provider",
		"controllers: ['*', cluster-autoscaler-provider]": "--controllers=*,cluster-autoscaler-provider",
	} {
		objects, err := render.Objects(load(t), parse(t, values+"\nprovider: {name: sim}\nautoscaler: {existingSecret: certificates, port: 9000}"))
		must.NoError(t, err)
		for name, wants := range map[string][]string{
			"workload.yaml": {
				"- " + controllers + "\n", "- --autoscaler-port=9000\n", "- --autoscaler-tls-cert-file=/etc/mooring/autoscaler/tls.crt\n",
				"- --autoscaler-tls-private-key-file=/etc/mooring/autoscaler/tls.key\n", "- --autoscaler-client-ca-file=/etc/mooring/autoscaler/ca.crt\n",
				"secretName: certificates\n", "mountPath: /etc/mooring/autoscaler\n", "name: autoscaler\n          containerPort: 9000\n",
			},
			"autoscaler.yaml": {"kind: Service\n", "port: 9000\n", "targetPort: autoscaler\n", "app.kubernetes.io/name: mooring\n"},
		} {
			for _, want := range wants {
				if !strings.Contains(objects[name]+"\n", want) {
					t.Errorf("%q: %s does not have %q:\n%s", values, name, want, objects[name])
				}
			}
		}
	}
	objects, err := render.Objects(load(t), parse(t, "provider: {name: sim}\ncontrollers: [service]"))
	must.NoError(t, err)
	if strings.Contains(objects["workload.yaml"], "autoscaler") || objects["autoscaler.yaml"] != "" {
		t.Errorf("without the value: %s %s", objects["workload.yaml"], objects["autoscaler.yaml"])
	}
}
