// Package agentenv builds the environment of a program whose requests go through purser. It sets
// the variables that name the proxy. It also makes common runtimes trust purser's interception
// root.
//
// It writes the files that the variables name. It sends no requests and starts no programs; the
// commands `purser exec` and `purser env` do.
package agentenv

import (
	"errors"
	"net/url"
	"runtime"
	"slices"
	"strings"
)

// Options describes the proxy, the key and the environment to start from.
type Options struct {
	Proxy *url.URL // purser's address, such as http://127.0.0.1:8402, without credentials
	// Key is the API key that pays, and Task labels its payments. Both must be set, because
	// Python's libraries send no credentials without a password.
	Key, Task string
	// Root holds the interception root in PEM. Without one, purser intercepts nothing, so no
	// certificate variable is set.
	Root    []byte
	Environ []string // to start from, as os.Environ returns it
	// Dir is the folder for certificate files. Default: purser's folder in the user's cache, or
	// else the user's own folder among the temporary files.
	Dir string
	// SystemRoots lists files that may hold the system's roots. The first that exists counts.
	// Default: the usual paths.
	SystemRoots []string
	// SystemWgetrcs lists files that may hold the system's settings of wget, and NPMConfigs those of npm.
	// The first that exists counts. Default: the usual paths.
	SystemWgetrcs, NPMConfigs []string
}

// Variable holds one variable and its value.
type Variable struct{ Name, Value string }

// Environment holds the variables to set, and warnings for the user.
type Environment struct {
	Variables []Variable
	Warnings  []string
}

var proxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "http_proxy", "https_proxy", "ws_proxy", "wss_proxy"}

// Names lists all variables that an Environment may set.
func Names() []string {
	names := slices.Concat(proxyNames, []string{"NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY"})
	for _, b := range bundles {
		names = append(names, b.name)
	}
	names = append(names, wgetVariable, phpVariable)
	return append(append(names, npmVariables...), javaOptions)
}

// New builds an environment, and writes the files that it names.
func New(o Options) (Environment, error) {
	if o.Proxy == nil || o.Proxy.Host == "" || o.Key == "" || o.Task == "" {
		return Environment{}, errors.New("an environment needs a proxy, a key and a task label")
	}
	old := environMap(o.Environ)
	var e Environment
	proxy := "http://" + escape(o.Key) + ":" + escape(o.Task) + "@" + o.Proxy.Host
	for _, name := range proxyNames {
		e.set(name, proxy)
	}
	direct := notProxied(old["NO_PROXY"], old["no_proxy"], o.Proxy.Host)
	if slices.Contains(direct, "*") {
		e.warn("NO_PROXY has a *: no request will go through purser")
	}
	e.set("NO_PROXY", strings.Join(direct, ","))
	e.set("no_proxy", strings.Join(direct, ","))
	e.set("NODE_USE_ENV_PROXY", "1")
	trust, err := e.setRoots(o, old)
	if err != nil {
		return Environment{}, err
	}
	e.setJava(o.Proxy, direct, trust, old[javaOptions])
	return e, nil
}

func (e *Environment) set(name, value string) {
	e.Variables = append(e.Variables, Variable{Name: name, Value: value})
}

// value returns a variable that was set.
func (e *Environment) value(name string) string {
	i := slices.IndexFunc(e.Variables, func(v Variable) bool { return v.Name == name })
	return e.Variables[i].Value
}

func (e *Environment) warn(text string) {
	if !slices.Contains(e.Warnings, text) {
		e.Warnings = append(e.Warnings, text)
	}
}

// Apply returns environ with the variables set. They replace variables of the same name.
func (e Environment) Apply(environ []string) []string {
	out := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(e.Variables, func(v Variable) bool { return sameName(v.Name, name) })
	})
	for _, v := range e.Variables {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// sameName compares names of variables as the operating system does.
func sameName(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}

func environMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, entry := range slices.Backward(environ) {
		name, value, _ := strings.Cut(entry, "=")
		m[name] = value
	}
	return m
}

// escape escapes a part of a URL's user information. It escapes all reserved characters, even those
// that RFC 3986 allows there, because Ruby reads a plus as a space.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// notProxied returns the entries of both spellings of NO_PROXY, because programs differ in which
// one they read. It adds purser's own address with its port: other servers on that host stay behind
// the proxy.
func notProxied(upper, lower, own string) []string {
	var all []string
	separates := func(r rune) bool { return strings.ContainsRune(", \t", r) }
	for _, entry := range strings.FieldsFunc(upper+","+lower+","+own, separates) {
		if !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return all
}
