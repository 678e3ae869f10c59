package upstream

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// binding is what a name means.
type binding struct {
	// value is set once it is known. It can be assigned to.
	value reflect.Value
	known bool
	// err says why there is no value.
	err error
	// expr is evaluated when the value is first asked for. typ is the expression of a type, a variable's too.
	expr     ast.Expr
	typ      ast.Expr
	function *closure
	file     file
	busy     bool
}

// scope has the names of a block.
type scope struct {
	outer *scope
	file  file
	names map[string]*binding
}

func (s *scope) find(name string) *binding {
	for ; s != nil; s = s.outer {
		if found := s.names[name]; found != nil {
			return found
		}
	}
	return nil
}

// importPath returns the package that a name means here, empty if it is a variable.
func (s *scope) importPath(name string) string {
	if s.find(name) != nil {
		return ""
	}
	for ; s != nil; s = s.outer {
		if s.file != nil {
			return s.file[name]
		}
	}
	return ""
}

func (s *scope) inner() *scope { return &scope{outer: s, names: map[string]*binding{}} }

func (s *scope) define(name string, value reflect.Value, err error) {
	if name == "_" {
		return
	}
	b := &binding{known: true, err: err}
	if err == nil {
		b.value = variable(value)
	}
	s.names[name] = b
}

// variable returns a copy of a value that can be assigned to.
func variable(value reflect.Value) reflect.Value {
	if !value.IsValid() {
		return reflect.New(reflect.TypeFor[any]()).Elem()
	}
	made := reflect.New(value.Type()).Elem()
	made.Set(value)
	return made
}

// closure is a function of the test file.
type closure struct {
	name string
	typ  *ast.FuncType
	body *ast.BlockStmt
	env  *scope
	file file
}

// opaque is a value that is not evaluated: a field of it, and what a method of it returns, is opaque too, and as a condition it is false.
type opaque struct{}

var (
	closureType = reflect.TypeFor[*closure]()
	opaqueType  = reflect.TypeFor[*opaque]()
	errorType   = reflect.TypeFor[error]()
	anyType     = reflect.TypeFor[any]()
	blank       = reflect.ValueOf(&opaque{})
)

func isOpaque(value reflect.Value) bool { return value.IsValid() && value.Type() == opaqueType }

// evaluation is one run.
type evaluation struct {
	pkg *Package
	// leniently goes on after a statement that fails.
	leniently bool
	// calls are what hooks keep: the name of the function first.
	calls [][]any
	depth int
}

// hooks stand for functions that look at a controller.
var hooks = map[string]func(e *evaluation, args []ast.Expr, in *scope) ([]reflect.Value, error){
	// newController returns a controller, its cloud and its client.
	"newController": func(*evaluation, []ast.Expr, *scope) ([]reflect.Value, error) {
		cloud, _ := valuesOf["new cloud"].(func() any)
		return []reflect.Value{blank, reflect.ValueOf(cloud()), blank}, nil
	},
	"nodeAddressesChangeDetected": func(e *evaluation, args []ast.Expr, in *scope) ([]reflect.Value, error) {
		call := []any{"nodeAddressesChangeDetected"}
		for _, arg := range args {
			value, err := e.expr(arg, in, nil)
			if err != nil {
				return nil, err
			}
			call = append(call, value.Interface())
		}
		e.calls = append(e.calls, call)
		return []reflect.Value{reflect.ValueOf(false)}, nil
	},
}

// maxDepth bounds the calls within calls.
const maxDepth = 50

// single evaluates an expression that has one value.
func (e *evaluation) single(values []reflect.Value, err error) (reflect.Value, error) {
	if err != nil {
		return reflect.Value{}, err
	}
	if len(values) != 1 {
		return reflect.Value{}, fmt.Errorf("%d values instead of one", len(values))
	}
	return values[0], nil
}

// unable is an error that says what the evaluator does not know.
func unable(format string, args ...any) error { return fmt.Errorf("not evaluated: "+format, args...) }

// resolve returns the type that an expression names. A function is any.
func (e *evaluation) resolve(expr ast.Expr, in *scope) (reflect.Type, error) {
	switch expr := expr.(type) {
	case *ast.Ident:
		return e.named(expr.Name, in)
	case *ast.SelectorExpr:
		if pkg, is := expr.X.(*ast.Ident); is {
			if typ := typesOf[in.importPath(pkg.Name)+"."+expr.Sel.Name]; typ != nil {
				return typ, nil
			}
			return nil, unable("the type %s.%s", pkg.Name, expr.Sel.Name)
		}
	case *ast.StarExpr:
		element, err := e.resolve(expr.X, in)
		if err != nil {
			return nil, err
		}
		return reflect.PointerTo(element), nil
	case *ast.ArrayType:
		element, err := e.resolve(expr.Elt, in)
		if err != nil {
			return nil, err
		}
		return reflect.SliceOf(element), nil
	case *ast.Ellipsis:
		element, err := e.resolve(expr.Elt, in)
		if err != nil {
			return nil, err
		}
		return reflect.SliceOf(element), nil
	case *ast.MapType:
		key, err := e.resolve(expr.Key, in)
		if err != nil {
			return nil, err
		}
		value, err := e.resolve(expr.Value, in)
		if err != nil {
			return nil, err
		}
		return reflect.MapOf(key, value), nil
	case *ast.FuncType, *ast.InterfaceType:
		return anyType, nil
	case *ast.StructType:
		return e.structure(expr, in)
	}
	return nil, unable("a type of the form %T", expr)
}

// prefix makes the name of a field public, because reflection sets no others.
const prefix = "X_"

func (e *evaluation) structure(expr *ast.StructType, in *scope) (reflect.Type, error) {
	var fields []reflect.StructField
	for _, field := range expr.Fields.List {
		typ, err := e.resolve(field.Type, in)
		if err != nil {
			return nil, err
		}
		for _, name := range field.Names {
			fields = append(fields, reflect.StructField{Name: prefix + name.Name, Type: typ})
		}
	}
	return reflect.StructOf(fields), nil
}

var builtin = map[string]reflect.Type{
	"any": anyType, "bool": reflect.TypeFor[bool](), "error": errorType, "float64": reflect.TypeFor[float64](), "int": reflect.TypeFor[int](),
	"int32": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](), "string": reflect.TypeFor[string](),
}

// named returns the type of a name.
func (e *evaluation) named(name string, in *scope) (reflect.Type, error) {
	if found := in.find(name); found != nil && found.expr == nil && found.typ != nil {
		where := in
		if found.file != nil {
			where = &scope{outer: e.pkg.scope, file: found.file, names: map[string]*binding{}}
		}
		return e.resolve(found.typ, where)
	}
	if typ := builtin[name]; typ != nil {
		return typ, nil
	}
	return nil, unable("the type %s", name)
}

// expr evaluates an expression. A literal without a type of its own is of the wanted one.
func (e *evaluation) expr(expr ast.Expr, in *scope, want reflect.Type) (reflect.Value, error) {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return e.expr(expr.X, in, want)
	case *ast.BasicLit:
		return literal(expr)
	case *ast.Ident:
		return e.ident(expr.Name, in)
	case *ast.FuncLit:
		return reflect.ValueOf(&closure{typ: expr.Type, body: expr.Body, env: in}), nil
	case *ast.CompositeLit:
		return e.composite(expr, in, want)
	case *ast.SelectorExpr:
		return e.selector(expr, in)
	case *ast.UnaryExpr:
		return e.unary(expr, in, want)
	case *ast.BinaryExpr:
		return e.binary(expr, in)
	case *ast.StarExpr:
		value, err := e.expr(expr.X, in, nil)
		if err != nil || isOpaque(value) {
			return value, err
		}
		if value = concrete(value); value.Kind() != reflect.Pointer || value.IsNil() {
			return reflect.Value{}, errors.New("no pointer, or a nil one")
		}
		return value.Elem(), nil
	case *ast.IndexExpr:
		return e.index(expr, in)
	case *ast.CallExpr:
		return e.single(e.callExpr(expr, in))
	}
	return reflect.Value{}, unable("an expression of the form %T", expr)
}

// concrete returns what an interface holds.
func concrete(value reflect.Value) reflect.Value {
	for value.IsValid() && value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	return value
}

func literal(expr *ast.BasicLit) (reflect.Value, error) {
	switch expr.Kind {
	case token.INT:
		number, err := strconv.Atoi(expr.Value)
		return reflect.ValueOf(number), err
	case token.FLOAT:
		number, err := strconv.ParseFloat(expr.Value, 64)
		return reflect.ValueOf(number), err
	case token.STRING:
		text, err := strconv.Unquote(expr.Value)
		return reflect.ValueOf(text), err
	}
	return reflect.Value{}, unable("the literal %s", expr.Value)
}

func (e *evaluation) ident(name string, in *scope) (reflect.Value, error) {
	found := in.find(name)
	switch {
	case found == nil && name == "nil":
		return reflect.Value{}, nil
	case found == nil && (name == "true" || name == "false"):
		return reflect.ValueOf(name == "true"), nil
	case found == nil:
		return reflect.Value{}, unable("the name %s", name)
	case found.function != nil:
		return reflect.ValueOf(found.function), nil
	case found.err != nil:
		return reflect.Value{}, found.err
	case found.known:
		return found.value, nil
	case found.expr == nil:
		return reflect.Value{}, unable("%s as a value", name)
	case found.busy:
		return reflect.Value{}, unable("%s, which needs itself", name)
	}
	found.busy = true
	defer func() { found.busy = false }()
	where := &scope{outer: e.pkg.scope, file: found.file, names: map[string]*binding{}}
	value, err := e.expr(found.expr, where, nil)
	if err != nil {
		return reflect.Value{}, err
	}
	return variable(value), nil // a package's variables are evaluated anew for each reading
}

func (e *evaluation) selector(expr *ast.SelectorExpr, in *scope) (reflect.Value, error) {
	if pkg, is := expr.X.(*ast.Ident); is {
		if path := in.importPath(pkg.Name); path != "" {
			if value, known := valuesOf[path+"."+expr.Sel.Name]; known {
				return reflect.ValueOf(value), nil
			}
			return reflect.Value{}, unable("%s.%s", pkg.Name, expr.Sel.Name)
		}
	}
	value, err := e.expr(expr.X, in, nil)
	if err != nil || isOpaque(value) {
		return value, err
	}
	return field(value, expr.Sel.Name)
}

// field returns a field of a struct or of what a pointer points to.
func field(value reflect.Value, name string) (reflect.Value, error) {
	if value = concrete(value); value.IsValid() && value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if !value.IsValid() || value.Kind() != reflect.Struct {
		return reflect.Value{}, unable("the field %s of no struct", name)
	}
	for _, one := range []string{name, prefix + name} {
		if found := value.FieldByName(one); found.IsValid() {
			return found, nil
		}
	}
	return reflect.Value{}, unable("the field %s of %s", name, value.Type())
}

func (e *evaluation) unary(expr *ast.UnaryExpr, in *scope, want reflect.Type) (reflect.Value, error) {
	if expr.Op == token.AND && want != nil && want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	value, err := e.expr(expr.X, in, want)
	if err != nil || isOpaque(value) {
		return value, err
	}
	switch expr.Op {
	case token.AND:
		if !value.CanAddr() {
			value = variable(value)
		}
		return value.Addr(), nil
	case token.NOT:
		return reflect.ValueOf(!truth(value)), nil
	case token.SUB:
		if value.CanInt() {
			negative := reflect.New(value.Type()).Elem()
			negative.SetInt(-value.Int())
			return negative, nil
		}
	}
	return reflect.Value{}, unable("the operator %s", expr.Op)
}

func truth(value reflect.Value) bool {
	value = concrete(value)
	return value.IsValid() && value.Kind() == reflect.Bool && value.Bool()
}

func (e *evaluation) index(expr *ast.IndexExpr, in *scope) (reflect.Value, error) {
	value, err := e.expr(expr.X, in, nil)
	if err != nil || isOpaque(value) {
		return value, err
	}
	key, err := e.expr(expr.Index, in, nil)
	if err != nil {
		return reflect.Value{}, err
	}
	switch value = concrete(value); value.Kind() {
	case reflect.Map:
		if key, err = convert(key, value.Type().Key(), e); err != nil {
			return reflect.Value{}, err
		}
		if found := value.MapIndex(key); found.IsValid() {
			return found, nil
		}
		return reflect.Zero(value.Type().Elem()), nil
	case reflect.Slice:
		if i := concrete(key); i.CanInt() && i.Int() >= 0 && i.Int() < int64(value.Len()) {
			return value.Index(int(i.Int())), nil
		}
	}
	return reflect.Value{}, unable("an index of %s", value.Kind())
}

func (e *evaluation) binary(expr *ast.BinaryExpr, in *scope) (reflect.Value, error) {
	left, err := e.expr(expr.X, in, nil)
	if err != nil {
		return reflect.Value{}, err
	}
	switch { // the second operand may not be evaluated
	case expr.Op == token.LAND && !truth(left):
		return reflect.ValueOf(false), nil
	case expr.Op == token.LOR && truth(left):
		return reflect.ValueOf(true), nil
	}
	right, err := e.expr(expr.Y, in, nil)
	if err != nil {
		return reflect.Value{}, err
	}
	if isOpaque(left) || isOpaque(right) {
		return blank, nil
	}
	switch expr.Op {
	case token.LAND, token.LOR:
		return reflect.ValueOf(truth(right)), nil
	case token.EQL, token.NEQ:
		same, err := equal(left, right, e)
		return reflect.ValueOf(same == (expr.Op == token.EQL)), err
	}
	left, right = concrete(left), concrete(right)
	if !left.IsValid() || !right.IsValid() {
		return reflect.Value{}, unable("the operator %s with nil", expr.Op)
	}
	if typ := left.Type(); typ == reflect.TypeFor[int]() || typ == reflect.TypeFor[string]() { // perhaps a constant without a type
		left, err = convert(left, right.Type(), e)
	} else {
		right, err = convert(right, left.Type(), e)
	}
	if err != nil {
		return reflect.Value{}, err
	}
	return arithmetic(expr.Op, left, right)
}

func arithmetic(op token.Token, left, right reflect.Value) (reflect.Value, error) {
	result := reflect.New(left.Type()).Elem()
	switch {
	case left.Kind() == reflect.String && op == token.ADD:
		result.SetString(left.String() + right.String())
		return result, nil
	case !left.CanInt():
	case op == token.ADD:
		result.SetInt(left.Int() + right.Int())
		return result, nil
	case op == token.SUB:
		result.SetInt(left.Int() - right.Int())
		return result, nil
	case op == token.MUL:
		result.SetInt(left.Int() * right.Int())
		return result, nil
	case op == token.REM && right.Int() != 0:
		result.SetInt(left.Int() % right.Int())
		return result, nil
	case op == token.LSS:
		return reflect.ValueOf(left.Int() < right.Int()), nil
	case op == token.GTR:
		return reflect.ValueOf(left.Int() > right.Int()), nil
	}
	return reflect.Value{}, unable("the operator %s of %s", op, left.Type())
}

// equal compares two values, of which one may be nil or a constant without a type.
func equal(left, right reflect.Value, e *evaluation) (bool, error) {
	left, right = concrete(left), concrete(right)
	if !left.IsValid() || !right.IsValid() {
		other := left
		if !left.IsValid() {
			other = right
		}
		if !other.IsValid() {
			return true, nil
		}
		switch other.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func:
			return other.IsNil(), nil
		default:
			return false, nil
		}
	}
	if left.Type() != right.Type() {
		converted, err := convert(right, left.Type(), e)
		if err != nil {
			if converted, err = convert(left, right.Type(), e); err != nil {
				return false, err
			}
			left, right = right, converted
		} else {
			right = converted
		}
	}
	if !left.Comparable() || !right.Comparable() {
		return false, unable("a comparison of %s", left.Type())
	}
	return left.Equal(right), nil
}

// composite evaluates a composite literal. Within a slice of pointers it stands for a pointer.
func (e *evaluation) composite(expr *ast.CompositeLit, in *scope, want reflect.Type) (reflect.Value, error) {
	typ, pointer := want, false
	if expr.Type != nil {
		var err error
		if typ, err = e.resolve(expr.Type, in); err != nil {
			return reflect.Value{}, err
		}
	} else if typ != nil && typ.Kind() == reflect.Pointer {
		typ, pointer = typ.Elem(), true
	}
	if typ == nil {
		return reflect.Value{}, unable("a literal without a type")
	}
	made := reflect.New(typ).Elem()
	var err error
	switch typ.Kind() {
	case reflect.Struct:
		err = e.fill(made, expr, in)
	case reflect.Slice:
		made.Set(reflect.MakeSlice(typ, 0, len(expr.Elts)))
		for _, element := range expr.Elts {
			value, failed := e.as(element, in, typ.Elem())
			if failed != nil {
				return reflect.Value{}, failed
			}
			made.Set(reflect.Append(made, value))
		}
	case reflect.Map:
		made.Set(reflect.MakeMap(typ))
		for _, element := range expr.Elts {
			pair, is := element.(*ast.KeyValueExpr)
			if !is {
				return reflect.Value{}, unable("a map without keys")
			}
			key, failed := e.as(pair.Key, in, typ.Key())
			value, second := e.as(pair.Value, in, typ.Elem())
			if failed = errors.Join(failed, second); failed != nil {
				return reflect.Value{}, failed
			}
			made.SetMapIndex(key, value)
		}
	default:
		err = unable("a literal of %s", typ)
	}
	if err != nil {
		return reflect.Value{}, err
	}
	if pointer {
		return made.Addr(), nil
	}
	return made, nil
}

// fill sets the fields of a struct.
func (e *evaluation) fill(made reflect.Value, expr *ast.CompositeLit, in *scope) error {
	for i, element := range expr.Elts {
		var target reflect.Value
		value := element
		if pair, is := element.(*ast.KeyValueExpr); is {
			name, is := pair.Key.(*ast.Ident)
			if !is {
				return unable("a field of the form %T", pair.Key)
			}
			var err error
			if target, err = field(made, name.Name); err != nil {
				return err
			}
			value = pair.Value
		} else if i < made.NumField() {
			target = made.Field(i)
		}
		if !target.CanSet() {
			return unable("a field of %s", made.Type())
		}
		evaluated, err := e.as(value, in, target.Type())
		if err != nil {
			return err
		}
		target.Set(evaluated)
	}
	return nil
}

// as evaluates an expression as a value of a type.
func (e *evaluation) as(expr ast.Expr, in *scope, typ reflect.Type) (reflect.Value, error) {
	value, err := e.expr(expr, in, typ)
	if err != nil {
		return reflect.Value{}, err
	}
	return convert(value, typ, e)
}

// convert returns a value as one of a type: constants take it, and functions of the test become functions of Go.
func convert(value reflect.Value, typ reflect.Type, e *evaluation) (reflect.Value, error) {
	if !value.IsValid() {
		return reflect.Zero(typ), nil
	}
	if value.Type().AssignableTo(typ) {
		return value, nil
	}
	if value.Kind() == reflect.Interface {
		return convert(value.Elem(), typ, e)
	}
	switch {
	case typ.Kind() == reflect.Func && value.Type() == closureType:
		return e.function(value, typ), nil
	case value.Type().ConvertibleTo(typ) && (value.Kind() == reflect.String) == (typ.Kind() == reflect.String) && typ.Kind() != reflect.Interface:
		return value.Convert(typ), nil
	}
	return reflect.Value{}, unable("%s as %s", value.Type(), typ)
}

// function returns a function of the test as one of Go, which panics if it cannot be evaluated.
func (e *evaluation) function(value reflect.Value, typ reflect.Type) reflect.Value {
	body, _ := value.Interface().(*closure)
	return reflect.MakeFunc(typ, func(args []reflect.Value) []reflect.Value {
		results, err := e.call(body, args)
		converted := make([]reflect.Value, typ.NumOut())
		for i := range converted {
			if err == nil && i < len(results) {
				converted[i], err = convert(results[i], typ.Out(i), e)
			}
			if err != nil {
				panic(fmt.Sprintf("a function of a test: %v", err))
			}
		}
		return converted
	})
}

// callExpr evaluates a call.
func (e *evaluation) callExpr(expr *ast.CallExpr, in *scope) ([]reflect.Value, error) {
	switch function := expr.Fun.(type) {
	case *ast.Ident:
		if in.find(function.Name) == nil {
			return e.builtin(function.Name, expr, in)
		}
		if hook := e.pkg.hooks[function.Name]; hook != nil {
			return hook(e, expr.Args, in)
		}
	case *ast.SelectorExpr:
		if pkg, is := function.X.(*ast.Ident); !is || in.importPath(pkg.Name) == "" {
			return e.method(function, expr, in)
		}
	}
	if typ, err := e.resolve(expr.Fun, in); err == nil && len(expr.Args) == 1 {
		return values(e.conversion(expr.Args[0], in, typ))
	}
	function, err := e.expr(expr.Fun, in, nil)
	if err != nil {
		for _, arg := range expr.Args { // hooks among the arguments
			if e.leniently {
				_, _ = e.expr(arg, in, nil)
			}
		}
		return nil, err
	}
	if function = concrete(function); isOpaque(function) {
		return []reflect.Value{blank}, nil
	}
	args, err := e.arguments(expr, in)
	if err != nil {
		return nil, err
	}
	if body, is := function.Interface().(*closure); is {
		return e.call(body, args)
	}
	return e.native(function, args)
}

func values(value reflect.Value, err error) ([]reflect.Value, error) {
	return []reflect.Value{value}, err
}

// conversion evaluates T(x).
func (e *evaluation) conversion(arg ast.Expr, in *scope, typ reflect.Type) (reflect.Value, error) {
	value, err := e.expr(arg, in, typ)
	if err != nil {
		return reflect.Value{}, err
	}
	if value = concrete(value); value.IsValid() && value.Type().ConvertibleTo(typ) {
		return value.Convert(typ), nil
	}
	return convert(value, typ, e)
}

// arguments evaluates those of a call. The elements of the last one are arguments of their own if it ends in three dots.
func (e *evaluation) arguments(expr *ast.CallExpr, in *scope) ([]reflect.Value, error) {
	var args []reflect.Value
	for i, arg := range expr.Args {
		value, err := e.expr(arg, in, nil)
		if err != nil {
			return nil, err
		}
		if expr.Ellipsis.IsValid() && i == len(expr.Args)-1 {
			for j := range concrete(value).Len() {
				args = append(args, concrete(value).Index(j))
			}
			continue
		}
		args = append(args, value)
	}
	return args, nil
}

func (e *evaluation) builtin(name string, expr *ast.CallExpr, in *scope) ([]reflect.Value, error) {
	if typ := builtin[name]; typ != nil && len(expr.Args) == 1 {
		return values(e.conversion(expr.Args[0], in, typ))
	}
	switch name {
	case "make":
		typ, err := e.resolve(expr.Args[0], in)
		switch {
		case err != nil:
			return nil, err
		case typ.Kind() == reflect.Map:
			return []reflect.Value{reflect.MakeMap(typ)}, nil
		case typ.Kind() == reflect.Slice && len(expr.Args) > 1:
			return []reflect.Value{reflect.MakeSlice(typ, 0, 0)}, nil
		}
		return nil, unable("make of %s", typ)
	case "append", "len":
	default:
		return nil, unable("the function %s", name)
	}
	first, err := e.expr(expr.Args[0], in, nil)
	if err != nil || isOpaque(first) {
		return []reflect.Value{first}, err
	}
	if first = concrete(first); name == "len" {
		return []reflect.Value{reflect.ValueOf(first.Len())}, nil
	}
	for _, arg := range expr.Args[1:] {
		value, err := e.as(arg, in, first.Type().Elem())
		if err != nil {
			return nil, err
		}
		first = reflect.Append(first, value)
	}
	return []reflect.Value{first}, nil
}

// method calls a method, or a function that a field holds.
func (e *evaluation) method(function *ast.SelectorExpr, expr *ast.CallExpr, in *scope) ([]reflect.Value, error) {
	receiver, err := e.expr(function.X, in, nil)
	if err != nil {
		return nil, err
	}
	args, err := e.arguments(expr, in)
	if isOpaque(receiver) {
		call := []any{function.Sel.Name}
		for _, arg := range args {
			if arg.IsValid() {
				call = append(call, arg.Interface())
			}
		}
		e.calls = append(e.calls, call)
		return []reflect.Value{blank}, nil
	}
	if err != nil {
		return nil, err
	}
	receiver = concrete(receiver)
	if !receiver.IsValid() {
		return nil, unable("a method of nil")
	}
	if receiver.CanAddr() {
		receiver = receiver.Addr()
	}
	method := receiver.MethodByName(function.Sel.Name)
	if !method.IsValid() && receiver.Kind() == reflect.Pointer && receiver.Elem().IsValid() {
		method = receiver.Elem().MethodByName(function.Sel.Name)
	}
	if !method.IsValid() {
		return nil, unable("the method %s of %s", function.Sel.Name, receiver.Type())
	}
	return e.native(method, args)
}

// native calls a function of Go.
func (e *evaluation) native(function reflect.Value, args []reflect.Value) ([]reflect.Value, error) {
	typ := function.Type()
	if typ.Kind() != reflect.Func {
		return nil, unable("a call of %s", typ)
	}
	converted := make([]reflect.Value, len(args))
	for i, arg := range args {
		var want reflect.Type
		switch {
		case typ.IsVariadic() && i >= typ.NumIn()-1:
			want = typ.In(typ.NumIn() - 1).Elem()
		case i < typ.NumIn():
			want = typ.In(i)
		default:
			return nil, unable("%d arguments of %s", len(args), typ)
		}
		var err error
		if converted[i], err = convert(arg, want, e); err != nil {
			return nil, err
		}
	}
	return function.Call(converted), nil
}

// call calls a function of the test file.
func (e *evaluation) call(function *closure, args []reflect.Value) ([]reflect.Value, error) {
	if e.depth++; e.depth > maxDepth {
		return nil, unable("calls within calls within calls")
	}
	defer func() { e.depth-- }()
	inner := &scope{outer: function.env, file: function.file, names: map[string]*binding{}}
	if function.env == nil {
		inner.outer = e.pkg.scope
	}
	next := 0
	for _, param := range function.typ.Params.List {
		typ, err := e.resolve(param.Type, inner)
		if err != nil {
			typ = anyType // such as a controller
		}
		_, variadic := param.Type.(*ast.Ellipsis)
		for _, name := range param.Names {
			switch {
			case variadic:
				rest := reflect.MakeSlice(typ, 0, len(args))
				for _, arg := range args[min(next, len(args)):] {
					value, err := convert(arg, typ.Elem(), e)
					if err != nil {
						return nil, err
					}
					rest = reflect.Append(rest, value)
				}
				inner.define(name.Name, rest, nil)
			case next < len(args):
				value := args[next]
				if !isOpaque(value) {
					if value, err = convert(value, typ, e); err != nil {
						return nil, err
					}
				}
				inner.define(name.Name, value, nil)
			default:
				return nil, unable("a call of %s with %d arguments", function.name, len(args))
			}
			next++
		}
	}
	var named []string
	if function.typ.Results != nil {
		for _, result := range function.typ.Results.List {
			for _, name := range result.Names {
				typ, err := e.resolve(result.Type, inner)
				if err != nil {
					return nil, err
				}
				inner.define(name.Name, reflect.Zero(typ), nil)
				named = append(named, name.Name)
			}
		}
	}
	lenient := e.leniently
	e.leniently = false
	flow, err := e.block(function.body.List, inner)
	e.leniently = lenient
	if err != nil {
		return nil, err
	}
	if len(named) > 0 && len(flow.results) == 0 {
		for _, name := range named {
			flow.results = append(flow.results, inner.names[name].value)
		}
	}
	return flow.results, nil
}

// flow is how a statement ended.
type flow struct {
	// ends is the statement that ends a block: token.RETURN, token.BREAK, token.CONTINUE, or zero.
	ends    token.Token
	results []reflect.Value
}

func (e *evaluation) block(statements []ast.Stmt, in *scope) (flow, error) {
	for _, statement := range statements {
		ended, err := e.statement(statement, in)
		if err != nil && e.leniently {
			continue
		}
		if err != nil || ended.ends != 0 {
			return ended, err
		}
	}
	return flow{}, nil
}

func (e *evaluation) statement(statement ast.Stmt, in *scope) (flow, error) {
	switch statement := statement.(type) {
	case *ast.AssignStmt:
		return flow{}, e.assign(statement, in)
	case *ast.DeclStmt:
		return flow{}, e.declaration(statement, in)
	case *ast.BlockStmt:
		return e.block(statement.List, in.inner())
	case *ast.BranchStmt:
		return flow{ends: statement.Tok}, nil
	case *ast.ExprStmt:
		if call, is := statement.X.(*ast.CallExpr); is {
			_, err := e.callExpr(call, in)
			return flow{}, err
		}
	case *ast.IfStmt:
		return e.condition(statement, in.inner())
	case *ast.IncDecStmt:
		value, err := e.expr(statement.X, in, nil)
		if err == nil && value.CanSet() && value.CanInt() {
			step := map[token.Token]int64{token.INC: 1, token.DEC: -1}[statement.Tok]
			value.SetInt(value.Int() + step)
		}
		return flow{}, err
	case *ast.ForStmt:
		return e.loop(statement, in.inner())
	case *ast.RangeStmt:
		return e.over(statement, in)
	case *ast.ReturnStmt:
		ended := flow{ends: token.RETURN}
		if len(statement.Results) == 1 {
			if call, is := statement.Results[0].(*ast.CallExpr); is {
				var err error
				ended.results, err = e.callExpr(call, in)
				return ended, err
			}
		}
		for _, result := range statement.Results {
			value, err := e.expr(result, in, nil)
			if err != nil {
				return ended, err
			}
			ended.results = append(ended.results, value)
		}
		return ended, nil
	}
	return flow{}, unable("a statement of the form %s", strings.TrimPrefix(fmt.Sprintf("%T", statement), "*ast."))
}

func (e *evaluation) condition(statement *ast.IfStmt, in *scope) (flow, error) {
	if statement.Init != nil {
		if _, err := e.statement(statement.Init, in); err != nil {
			return flow{}, err
		}
	}
	condition, err := e.expr(statement.Cond, in, nil)
	switch {
	case err != nil:
		return flow{}, err
	case truth(condition):
		return e.block(statement.Body.List, in.inner())
	case statement.Else != nil:
		return e.statement(statement.Else, in)
	}
	return flow{}, nil
}

// maxRounds bounds a loop.
const maxRounds = 10000

func (e *evaluation) loop(statement *ast.ForStmt, in *scope) (flow, error) {
	if statement.Init != nil {
		if _, err := e.statement(statement.Init, in); err != nil {
			return flow{}, err
		}
	}
	for range maxRounds {
		if statement.Cond == nil {
			return flow{}, unable("a loop without an end")
		}
		if condition, err := e.expr(statement.Cond, in, nil); err != nil || !truth(condition) {
			return flow{}, err
		}
		ended, err := e.block(statement.Body.List, in.inner())
		if err != nil || ended.ends == token.RETURN {
			return ended, err
		}
		if ended.ends == token.BREAK {
			return flow{}, nil
		}
		if statement.Post != nil {
			if _, err := e.statement(statement.Post, in); err != nil {
				return flow{}, err
			}
		}
	}
	return flow{}, unable("a loop of more than %d rounds", maxRounds)
}

// over evaluates a loop over a slice.
func (e *evaluation) over(statement *ast.RangeStmt, in *scope) (flow, error) {
	value, err := e.expr(statement.X, in, nil)
	if err != nil || isOpaque(value) {
		return flow{}, err
	}
	if value = concrete(value); !value.IsValid() || value.Kind() != reflect.Slice {
		return flow{}, unable("a loop over no slice")
	}
	for i := range value.Len() {
		inner := in.inner()
		if key, is := statement.Key.(*ast.Ident); is {
			inner.define(key.Name, reflect.ValueOf(i), nil)
		}
		if element, is := statement.Value.(*ast.Ident); is {
			inner.define(element.Name, value.Index(i), nil)
		}
		ended, err := e.block(statement.Body.List, inner)
		if err != nil || ended.ends == token.RETURN {
			return ended, err
		}
		if ended.ends == token.BREAK {
			return flow{}, nil
		}
	}
	return flow{}, nil
}

func (e *evaluation) declaration(statement *ast.DeclStmt, in *scope) error {
	decl, is := statement.Decl.(*ast.GenDecl)
	if !is {
		return unable("a declaration of the form %T", statement.Decl)
	}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			in.names[spec.Name.Name] = &binding{typ: spec.Type}
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				var typ reflect.Type
				var err error
				if spec.Type != nil {
					if typ, err = e.resolve(spec.Type, in); err != nil {
						in.define(name.Name, blank, nil) // such as a controller
						continue
					}
				}
				if i >= len(spec.Values) {
					in.define(name.Name, reflect.Zero(typ), nil)
					continue
				}
				value, err := e.expr(spec.Values[i], in, typ)
				if err == nil && typ != nil {
					value, err = convert(value, typ, e)
				}
				in.define(name.Name, value, err)
			}
		}
	}
	return nil
}

func (e *evaluation) assign(statement *ast.AssignStmt, in *scope) error {
	results, err := e.right(statement, in)
	for i, left := range statement.Lhs {
		var value reflect.Value
		switch {
		case err != nil:
		case i < len(results):
			value = results[i]
		case len(results) == 1 && isOpaque(results[0]):
			value = blank
		default:
			err = unable("%d values for %d names", len(results), len(statement.Lhs))
		}
		if name, is := left.(*ast.Ident); is && statement.Tok == token.DEFINE {
			in.define(name.Name, value, err)
			continue
		}
		if err == nil {
			err = e.set(left, statement.Tok, value, in)
		}
	}
	return err
}

// right evaluates the right side of an assignment.
func (e *evaluation) right(statement *ast.AssignStmt, in *scope) ([]reflect.Value, error) {
	if len(statement.Rhs) == 1 {
		if call, is := statement.Rhs[0].(*ast.CallExpr); is {
			return e.callExpr(call, in)
		}
	}
	var results []reflect.Value
	for i, right := range statement.Rhs {
		var want reflect.Type
		if statement.Tok == token.ASSIGN && i < len(statement.Lhs) {
			if target, err := e.expr(statement.Lhs[i], in, nil); err == nil && target.IsValid() {
				want = target.Type()
			}
		}
		value, err := e.expr(right, in, want)
		if err != nil {
			return nil, err
		}
		results = append(results, value)
	}
	return results, nil
}

// set assigns to what exists.
func (e *evaluation) set(left ast.Expr, op token.Token, value reflect.Value, in *scope) error {
	if name, is := left.(*ast.Ident); is && name.Name == "_" {
		return nil
	}
	if index, is := left.(*ast.IndexExpr); is {
		container, err := e.expr(index.X, in, nil)
		if err != nil {
			return err
		}
		if container = concrete(container); container.Kind() == reflect.Map {
			key, err := e.as(index.Index, in, container.Type().Key())
			if err != nil {
				return err
			}
			if value, err = convert(value, container.Type().Elem(), e); err != nil {
				return err
			}
			container.SetMapIndex(key, value)
			return nil
		}
	}
	target, err := e.expr(left, in, nil)
	if err != nil {
		return err
	}
	if isOpaque(target) {
		if name, is := left.(*ast.SelectorExpr); is && value.IsValid() {
			e.calls = append(e.calls, []any{name.Sel.Name, value.Interface()})
		}
		return nil
	}
	if !target.CanSet() || op != token.ASSIGN {
		return unable("an assignment by %s", op)
	}
	if value, err = convert(value, target.Type(), e); err != nil {
		return err
	}
	target.Set(value)
	return nil
}
