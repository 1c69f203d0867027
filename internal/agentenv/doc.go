// Package agentenv builds the environment of a program whose requests go through purser. It sets
// the variables that name the proxy. It also makes common runtimes trust purser's interception
// root.
//
// It writes the files that the variables name. It sends no requests and starts no programs; the
// commands `purser exec` and `purser env` do.
package agentenv
