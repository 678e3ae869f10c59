package standin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// state returns what the cloud holds, by names that the calls decide.
func (c *Cloud) state() map[string]string {
	state := map[string]string{}
	for _, instance := range c.instances {
		state["instance/"+*instance.InstanceId] = canonical(map[string]any{"state": instance.State.Name, "tags": instance.Tags})
	}
	for _, group := range c.groups {
		at := "security group/" + group.id + "/"
		state[at+"name"] = group.name
		state[at+"description"] = group.description
		state[at+"tags"] = canonical(group.tags)
		state[at+"ingress"] = canonical(group.permissions())
	}
	for _, b := range c.balancers {
		at := "balancer/" + *b.LoadBalancerName + "/"
		state[at+"instances"] = canonical(b.Instances)
		state[at+"listeners"] = canonical(b.ListenerDescriptions)
		state[at+"attributes"] = canonical(b.attributes)
		state[at+"tags"] = canonical(b.tags)
		rest := b.LoadBalancerDescription
		rest.Instances, rest.ListenerDescriptions = nil, nil
		state[at+"description"] = canonical(rest)
	}
	for _, b := range c.networkBalancers {
		at := "network balancer/" + *b.LoadBalancerName + "/"
		state[at+"description"] = canonical(b.LoadBalancer)
		state[at+"listeners"] = canonical(b.listeners)
		state[at+"attributes"] = canonical(b.attributes)
		state[at+"tags"] = canonical(b.tags)
	}
	for _, group := range c.targetGroups {
		at := "target group/" + *group.TargetGroupName + "/"
		state[at+"description"] = canonical(group.TargetGroup)
		state[at+"targets"] = canonical(group.targets)
		state[at+"tags"] = canonical(group.tags)
	}
	return state
}

// canonical writes a value as JSON, without what is absent and with lists in the order of their elements' texts: the order of
// tags, rules and instances has no meaning, and the plugin takes most of them from maps.
func canonical(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err.Error()
	}
	text, _ := write(tidy(plain), " ") // what was read from JSON can be written as JSON
	return text
}

func tidy(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if inner = tidy(inner); inner == nil || inner == "" {
				delete(value, key)
			} else {
				value[key] = inner
			}
		}
		// The SDK's outputs carry what they know of their own answer.
		delete(value, "ResultMetadata")
	case []any:
		for i := range value {
			value[i] = tidy(value[i])
		}
		slices.SortFunc(value, func(a, b any) int {
			one, _ := write(a, "")
			other, _ := write(b, "")
			return cmp.Compare(one, other)
		})
		if len(value) == 0 {
			return nil
		}
	}
	return value
}

func write(value any, indent string) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return text.String(), err
}
