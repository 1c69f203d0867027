// Package notices tests that people are told: a purser as it ships tells of each kind of event once, to chats, a
// webhook and a mail server, also when it is killed between the commit and the delivery.
package notices
