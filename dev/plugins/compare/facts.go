package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changesOfCloud is the fact that says what changed in the cloud in a step, a line for each change.
const changesOfCloud = "changes of the cloud"

// objects are what Kubernetes has.
type objects struct {
	nodes    []corev1.Node
	services []corev1.Service
	events   []corev1.Event
}

// factsOf returns what is true of Kubernetes and of the cloud. The calls are those of this step.
func factsOf(kubernetes objects, cloud Observation, calls []Call) facts {
	all := facts{}
	for _, node := range kubernetes.nodes {
		all.addNode(node)
	}
	for _, service := range kubernetes.services {
		all.addService(service)
	}
	all.addEvents(kubernetes.events)
	for key, value := range cloud.State {
		all["cloud/"+key] = value
	}
	var changes []string
	for _, call := range calls {
		if call.Change != "" {
			changes = append(changes, strings.TrimSpace(fmt.Sprintf("%s %s %s", call.Action, call.Change, call.Error)))
		}
	}
	if len(changes) > 0 {
		all[changesOfCloud] = strings.Join(changes, "\n")
	}
	return all
}

func (f facts) addNode(node corev1.Node) {
	at := "node/" + node.Name + "/"
	f.addMeta(at, node.ObjectMeta)
	f[at+"providerID"] = node.Spec.ProviderID
	f[at+"unschedulable"] = fmt.Sprint(node.Spec.Unschedulable)
	for _, taint := range node.Spec.Taints {
		f[at+"taint/"+taint.Key+":"+string(taint.Effect)] = taint.Value
	}
	var addresses []string
	for _, address := range node.Status.Addresses {
		addresses = append(addresses, string(address.Type)+" "+address.Address)
	}
	f[at+"addresses"] = strings.Join(addresses, "\n")
	for _, condition := range node.Status.Conditions {
		f[at+"condition/"+string(condition.Type)] = said(string(condition.Status), condition.Reason, condition.Message)
	}
}

// said is what a condition says, without when.
func said(status, reason, message string) string {
	return strings.Join([]string{status, reason, message}, " ")
}

func (f facts) addService(service corev1.Service) {
	at := "service/" + service.Namespace + "/" + service.Name + "/"
	f.addMeta(at, service.ObjectMeta)
	f[at+"ingress"] = asJSON(service.Status.LoadBalancer.Ingress)
	spec := service.Spec
	spec.ClusterIP, spec.ClusterIPs = "", nil // random
	f[at+"spec"] = asJSON(spec)
	for _, condition := range service.Status.Conditions {
		f[at+"condition/"+condition.Type] = said(string(condition.Status), condition.Reason, condition.Message)
	}
}

func (f facts) addMeta(at string, meta metav1.ObjectMeta) {
	for key, value := range meta.Labels {
		f[at+"label/"+key] = value
	}
	for key, value := range meta.Annotations {
		f[at+"annotation/"+key] = value
	}
	for _, finalizer := range meta.Finalizers {
		f[at+"finalizer/"+finalizer] = ""
	}
	if meta.DeletionTimestamp != nil {
		f[at+"deleted"] = ""
	}
}

// apiServerComponents send events of kube-apiserver's own repairs. Whether there are any depends on how its start went, not on the manager.
var apiServerComponents = []string{"ipallocator-repair-controller", "portallocator-repair-controller"}

// addEvents adds the distinct messages of each reason. How often one was said is a matter of when.
func (f facts) addEvents(events []corev1.Event) {
	messages := map[string]map[string]bool{}
	for _, event := range events {
		component := event.Source.Component
		if component == "" {
			component = event.ReportingController
		}
		if slices.Contains(apiServerComponents, component) {
			continue
		}
		about := event.InvolvedObject
		at := "event/" + strings.ToLower(about.Kind) + "/"
		if about.Namespace != "" {
			at += about.Namespace + "/"
		}
		at += about.Name + "/" + event.Type + "/" + event.Reason
		if messages[at] == nil {
			messages[at] = map[string]bool{}
		}
		messages[at][component+": "+event.Message] = true
	}
	for at, messages := range messages {
		f[at] = strings.Join(slices.Sorted(maps.Keys(messages)), "\n")
	}
}

// normalized returns the facts with every key and value replaced.
func (f facts) normalized(replace func(string) string) facts {
	clean := make(facts, len(f))
	for key, value := range f {
		clean[replace(key)] = replace(value)
	}
	return clean
}

// ordered returns the facts with the changes of the cloud in their order, or sorted if that order says nothing.
func (f facts) ordered(matters bool) facts {
	if changes, found := f[changesOfCloud]; found && !matters {
		f[changesOfCloud] = strings.Join(slices.Sorted(strings.SplitSeq(changes, "\n")), "\n")
	}
	return f
}

// asJSON writes a value of the Kubernetes API, which always can be written.
func asJSON(value any) string {
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
