// Package pages reads lists of the API server page by page.
package pages

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// size is how many objects a page has.
const size = 500

// Each calls do for every object that a list function of a typed client returns, page by page. T is the type of the objects.
func Each[T any, L runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, do func(*T),
) error {
	pages := pager.ListPager{PageSize: size, PageFn: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}}
	return pages.EachListItem(ctx, options, func(object runtime.Object) error {
		do(any(object).(*T))
		return nil
	})
}

// All returns all objects. With an error, it returns those of the pages before; without one, the slice is not nil.
func All[T any, L runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions,
) ([]T, error) {
	objects := []T{}
	err := Each(ctx, list, options, func(object *T) { objects = append(objects, *object) })
	return objects, err
}
