// Package agentenv is the environment of a program whose requests go through purser: the
// variables that name the proxy, and those that make common runtimes trust the root that
// purser intercepts HTTPS with.
//
// It writes the files that the variables name. It asks purser nothing and starts nothing;
// that is the business of the commands `purser exec` and `purser env`.
package agentenv
