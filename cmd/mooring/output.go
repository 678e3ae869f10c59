package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/cloudconfig"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// planDocument is a plan as it is printed.
type planDocument struct {
	metav1.TypeMeta `json:",inline"`
	view.Plan
}

func (d *planDocument) Rows() []cli.RowsOf { return []cli.RowsOf{{Field: "intents"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *planDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// statusDocument is a status as it is printed.
type statusDocument struct {
	metav1.TypeMeta `json:",inline"`
	view.Status
}

func (d *statusDocument) Rows() []cli.RowsOf {
	return []cli.RowsOf{{Field: "nodes", Kind: "Node"}, {Field: "services", Kind: "Service"}}
}

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *statusDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// checkDocument is what came of all checks as it is printed.
type checkDocument struct {
	metav1.TypeMeta `json:",inline"`
	check.Report
}

func (d *checkDocument) Rows() []cli.RowsOf { return []cli.RowsOf{{Field: "results"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *checkDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// validationDocument is what is to be said of a cloud config as it is printed.
type validationDocument struct {
	metav1.TypeMeta `json:",inline"`
	cloudconfig.Report
}

func (d *validationDocument) Rows() []cli.RowsOf { return []cli.RowsOf{{Field: "findings"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *validationDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }
