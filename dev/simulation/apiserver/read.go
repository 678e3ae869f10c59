package apiserver

import (
	"fmt"
	"net/http"
	"path"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

func (s *Server) get(c *call) answer {
	found, ok := s.table(c.resource).objects[objectKey{c.Namespace, c.Name}]
	if !ok {
		return failed(apierrors.NewNotFound(c.resource.groupResource(), c.Name))
	}
	return answer{entry: found}
}

// listOptions reads and checks the parameters of a list or a watch.
func (c *call) listOptions() (*metav1.ListOptions, selection, error) {
	options, selected := &metav1.ListOptions{}, selection{namespace: c.Namespace, labels: labels.Everything(), fields: fields.Everything()}
	values := c.query
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&values, options, nil); err != nil {
		return nil, selected, apierrors.NewBadRequest(err.Error())
	}
	var err error
	if selected.labels, err = labels.Parse(options.LabelSelector); err != nil {
		return nil, selected, apierrors.NewBadRequest(err.Error())
	}
	if _, err = fields.ParseSelector(options.FieldSelector); err != nil {
		return nil, selected, apierrors.NewBadRequest(err.Error())
	}
	internal := &internalversion.ListOptions{
		Watch: options.Watch, ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch,
		Continue: options.Continue, SendInitialEvents: options.SendInitialEvents,
	}
	if errs := listvalidation.ValidateListOptions(internal, true); len(errs) > 0 {
		return nil, selected, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if selected.fields, err = c.fieldSelector(options.FieldSelector); err != nil {
		return nil, selected, err
	}
	return options, selected, nil
}

// fieldSelector parses a selector of the fields that a kind offers. events.k8s.io names some of them otherwise.
func (c *call) fieldSelector(text string) (fields.Selector, error) {
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	known := c.resource.selectable(c.resourceStored().make(), mustMeta(c.resourceStored().make()))
	selector, err = selector.Transform(func(name, value string) (string, string, error) {
		name = c.storedField(name)
		if _, ok := known[name]; !ok {
			return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", name, "metadata.name", "metadata.namespace")
		}
		return name, value, nil
	})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return selector, nil
}

// resourceStored is the resource whose table keeps the objects.
func (c *call) resourceStored() *resource {
	for _, candidate := range resources {
		if candidate.storage == "" && candidate.key() == c.resource.key() {
			return candidate
		}
	}
	return c.resource
}

func (s *Server) list(c *call) answer {
	options, selected, err := c.listOptions()
	if err != nil {
		return failed(err)
	}
	table := s.table(c.resource)
	version, start := s.version, ""
	switch {
	case options.Continue != "":
		if options.ResourceVersion != "" && options.ResourceVersion != "0" {
			return failed(apierrors.NewBadRequest("specifying resource version is not allowed when using continue"))
		}
		key, at, err := storage.DecodeContinue(options.Continue, "/")
		if err != nil {
			return failed(apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err)))
		}
		start = key[1:]
		if at >= 0 { // otherwise the token came with an answer that the list had expired
			version = at
		}
		if version < s.compacted {
			return failed(s.expiredContinue(start))
		}
	case options.ResourceVersion != "":
		exact := options.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
			options.ResourceVersionMatch == "" && options.Limit > 0 && options.ResourceVersion != "0"
		asked, err := parseVersion(options.ResourceVersion)
		if err != nil {
			return failed(err)
		}
		if asked > s.version {
			return failed(tooLargeVersion(asked, s.version))
		}
		if exact {
			if asked < s.compacted {
				return failed(apierrors.NewResourceExpired("The resourceVersion for the provided list is too old."))
			}
			version = asked
		} else if options.ResourceVersion == "0" {
			options.Limit = 0 // answered from the cache, which has no pages
		}
	}
	return s.page(c, options, selected, table.at(version), version, start)
}

// page answers with the objects of one page.
func (s *Server) page(c *call, options *metav1.ListOptions, selected selection, objects map[objectKey]*entry, version int64, start string) answer {
	var covered, matching []*entry
	for _, candidate := range sorted(objects) {
		if (selected.namespace == "" || candidate.meta.GetNamespace() == selected.namespace) && c.pathOf(candidate) >= start {
			covered = append(covered, candidate)
		}
	}
	about := metav1.ListMeta{ResourceVersion: strconv.FormatInt(version, 10)}
	for i, candidate := range covered {
		if !selected.matches(candidate) {
			continue
		}
		matching = append(matching, candidate)
		rest := int64(len(covered) - i - 1)
		if int64(len(matching)) != options.Limit || rest == 0 {
			continue
		}
		token, err := storage.EncodeContinue("/"+c.pathOf(candidate)+"\x00", "/", version)
		if err != nil {
			return failed(apierrors.NewInternalError(err))
		}
		about.Continue = token // also if nothing that follows matches: the API server does not look
		if selected.empty() {
			about.RemainingItemCount = &rest
		}
		break
	}
	if c.onlyMetadata() {
		return answer{object: partialList(matching, about)}
	}
	return answer{object: c.resource.listOf(matching, about)}
}

// pathOf is the key of an object within what a list covers.
func (c *call) pathOf(e *entry) string {
	if c.Namespace != "" {
		return e.meta.GetName()
	}
	return path.Join(e.meta.GetNamespace(), e.meta.GetName())
}

// expiredContinue offers a token that goes on with the newest state.
func (s *Server) expiredContinue(start string) error {
	token, err := storage.EncodeContinue("/"+start, "/", -1)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You can start a new list " +
		"without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.")
	expired.ErrStatus.Continue = token
	return expired
}

func parseVersion(text string) (int64, error) {
	version, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: %v", text, err))
	}
	return int64(version), nil
}

// tooLargeVersion says that a version does not exist yet.
func tooLargeVersion(wanted, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	err.ErrStatus.Code = http.StatusGatewayTimeout
	return err
}
