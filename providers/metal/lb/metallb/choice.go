package metallb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/config/convert"
)

// choice is which version of each resource is in force, by what notes of package convert name the resource.
type choice struct {
	taken map[string]resource
	// refused says why the resource as it is now is not in force. An older version of it may be.
	refused map[string]string
	// notes are what the conversion says of what is taken.
	notes []convert.Note
	// content is the cloud config, and config is it after it was read.
	content []byte
	config  *config.CloudConfig
}

// resource is one version of a resource.
type resource struct {
	object *unstructured.Unstructured
	// text is what of it is configured, in JSON.
	text []byte
}

// key is how package convert names a resource.
func key(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// resourceOf leaves out what configures nothing: status, and metadata but for labels, by which advertisements select pools.
func resourceOf(object *unstructured.Unstructured) (resource, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "spec": object.Object["spec"],
		"metadata": map[string]any{"namespace": object.GetNamespace(), "name": object.GetName(), "labels": object.GetLabels()},
	})
	if err != nil {
		return resource{}, fmt.Errorf("%s: %w", key(object), err)
	}
	return resource{object: object, text: text}, nil
}

// choose decides which resources are in force. All that are there are, if they make a config that the provider takes after the one before.
// Else each that has changed is tried by itself, the oldest first, and one that is wrong costs no other. Of that one the version before stays
// in force, or none. What is gone is gone.
func choose(base base, before choice, now []resource) choice {
	next := choice{taken: map[string]resource{}, refused: map[string]string{}}
	all, changed := map[string]resource{}, []resource{}
	for _, one := range now {
		name := key(one.object)
		all[name] = one
		was, known := before.taken[name]
		if known {
			next.taken[name] = was
		}
		if !known || !bytes.Equal(was.text, one.text) {
			changed = append(changed, one)
		} else {
			next.taken[name] = one
		}
	}
	if err := next.try(base, before.config, all); err == nil {
		return next
	}
	slices.SortFunc(changed, func(a, b resource) int {
		return cmp.Or(a.object.GetCreationTimestamp().Compare(b.object.GetCreationTimestamp().Time), cmp.Compare(key(a.object), key(b.object)))
	})
	kept := maps.Clone(next.taken)
	for _, one := range changed {
		name := key(one.object)
		with := maps.Clone(kept)
		with[name] = one
		if err := next.try(base, before.config, with); err != nil {
			next.refused[name] = err.Error()
			continue
		}
		kept = with
	}
	if err := next.try(base, before.config, kept); err != nil { // what is gone left something that is wrong by itself
		next.taken, next.config, next.content, next.notes = before.taken, before.config, before.content, before.notes
		next.refused[""] = err.Error()
	}
	return next
}

// try makes resources those in force, if the provider takes the config that they make.
func (c *choice) try(base base, before *config.CloudConfig, resources map[string]resource) error {
	var texts [][]byte
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		texts = append(texts, resources[name].text)
	}
	result, err := convert.Objects(texts...)
	if err != nil {
		return err
	}
	if len(result.LeftOut) > 0 {
		return errors.New(whyLeftOut(result))
	}
	content, err := base.with(result.Config)
	if err != nil {
		return err
	}
	read, err := config.Read(bytes.NewReader(content), base.dir)
	if err != nil {
		return err
	}
	if before != nil {
		if errs := config.ValidateChange(before, read); len(errs) > 0 {
			return fmt.Errorf("a running process does not take the change: %w", errs.ToAggregate())
		}
	}
	c.taken, c.content, c.config, c.notes = resources, content, read, result.Notes
	return nil
}

// whyLeftOut is what the conversion says of the routers that are not in the config.
func whyLeftOut(result convert.Result) string {
	var why []string
	for _, note := range result.Notes {
		if note.Severity == convert.Lost && slices.Contains(result.LeftOut, note.Resource) {
			why = append(why, strings.TrimSpace(note.Field+": "+note.Message))
		}
	}
	return strings.Join(why, "; ")
}
