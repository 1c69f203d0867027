// Package conns looks after clients' connections below net/http: it goes on reading while a
// request is served, so that a client that leaves is noticed whatever it sent before, and it
// bounds how many connections there are.
package conns
