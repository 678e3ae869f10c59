package pages

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAll(t *testing.T) {
	refused := errors.New("the page is refused")
	for name, test := range map[string]struct {
		pages []string // the name of the one node of each; empty: an error
		want  []string
		err   error
	}{
		"no objects":         {[]string{}, []string{}, nil},
		"one page":           {[]string{"a"}, []string{"a"}, nil},
		"three pages":        {[]string{"a", "b", "c"}, []string{"a", "b", "c"}, nil},
		"an error":           {[]string{""}, []string{}, refused},
		"an error in page 3": {[]string{"a", "b", "", "d"}, []string{"a", "b"}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			next := 0
			list := func(_ context.Context, options metav1.ListOptions) (*corev1.NodeList, error) {
				if options.Limit != size || options.LabelSelector != "x" || (options.Continue != "") != (next > 0) {
					t.Errorf("page %d is asked for by %+v", next, options)
				}
				page := &corev1.NodeList{}
				if next == len(test.pages) {
					return page, nil
				}
				if test.pages[next] == "" {
					return nil, refused
				}
				page.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: test.pages[next]}}}
				if next++; next < len(test.pages) {
					page.Continue = test.pages[next-1]
				}
				return page, nil
			}
			nodes, err := All[corev1.Node](t.Context(), list, metav1.ListOptions{LabelSelector: "x"})
			names := []string{}
			for i := range nodes {
				names = append(names, nodes[i].Name)
			}
			if !errors.Is(err, test.err) || nodes == nil || !slices.Equal(names, test.want) {
				t.Errorf("%v, %v, want %v, %v", names, err, test.want, test.err)
			}
		})
	}
}
