// Package dashboard tests purser's dashboard with programs that nobody here wrote: Debian's Chromium, driven by
// playwright-core, signs in at the identity provider oidc-provider and uses the pages of a purser process; axe-core
// judges them. Money moves on the sandbox's chain.
//
// The tests here are about what only a browser and a process can show: the whole journey, what a page transfers and how
// it looks, the keyboard, time with a long history, and what strangers get. What pages say is tested beside them.
package dashboard
