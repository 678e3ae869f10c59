package main

import (
	"os"
	"testing"

	"github.com/mooring-ccm/mooring/dev/programtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m, run)) }
