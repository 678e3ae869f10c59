// Command protocol writes the Go code of a protocol beside its .proto file. With --check it writes nothing, and says which file is
// not current. There is no protoc: protocompile reads the file, and the generators of Go's own projects write the code.
//
// It is in the module dev/tools: the compiler is no dependency of what vendors build with Mooring.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"golang.org/x/tools/imports"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/mooring-ccm/mooring/dev/docgen"
)

// generators are run one after the other. go.mod has their versions.
var generators = []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file is not what would be written")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: protocol [--check] FILE.proto, by its path in the repository")
		os.Exit(2)
	}
	if err := generate(context.Background(), flag.Arg(0), *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// generate writes what belongs to a file. The working directory is this one.
func generate(ctx context.Context, name string, check bool) error {
	request, err := compile(ctx, name)
	if err != nil {
		return err
	}
	for _, generator := range generators {
		files, err := run(ctx, generator, request)
		if err != nil {
			return err
		}
		for _, file := range files {
			code, err := imports.Process(file.GetName(), []byte(file.GetContent()), &imports.Options{FormatOnly: true, Comments: true, TabIndent: true, TabWidth: 8})
			if err != nil {
				return fmt.Errorf("formatting %s: %w", file.GetName(), err)
			}
			if err := docgen.Put(filepath.Join("../../..", filepath.FromSlash(file.GetName())), code, check, "definitions in "+name, "./"+path.Dir(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile returns what a generator is asked, with the comments of the file.
func compile(ctx context.Context, name string) ([]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"../../.."}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("compiling %s: %w", name, err)
	}
	var files []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		files = append(files, protodesc.ToFileDescriptorProto(file))
	}
	add(compiled[0])
	return proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name}, ProtoFile: files, Parameter: proto.String("paths=source_relative"),
	})
}

// run returns the files that a generator makes.
func run(ctx context.Context, generator string, request []byte) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", generator, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", generator, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", generator, response.GetError())
	}
	return response.File, nil
}
