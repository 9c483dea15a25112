//! Remembers how the last few different requests were answered, by their bytes.

use std::rc::Rc;

use crate::plan::Plan;

/// Different requests that are remembered. A load test mostly sends one; a few more let a script
/// go round through some paths.
const RECIPES_MAX: usize = 16;
/// The longest request that is remembered, in bytes.
const REQUEST_MAX_BYTES: usize = 16 * 1024;
/// The longest answer that is remembered, in bytes.
const ANSWER_MAX_BYTES: usize = 256 * 1024;

/// A request and what was done for it.
#[derive(Debug)]
struct Recipe {
    request: Vec<u8>,
    plan: Rc<Plan>,
    /// Unlike its place, never used twice.
    id: u64,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Recipes {
    recipes: Vec<Recipe>,
    /// Place of the last one that was found: the same request mostly comes again.
    last: usize,
    /// Place of the next to be replaced.
    oldest: usize,
    ids: u64,
}

/// A request that was seen before.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) request_bytes: usize,
    pub(crate) plan: Rc<Plan>,
}

impl Recipes {
    /// Remembers a request, unless it or its answer is too large.
    pub(crate) fn add(&mut self, request: &[u8], plan: &Rc<Plan>) {
        let answer_bytes = plan.instant_bytes().map_or(0, <[u8]>::len);
        let is_known = self.recipes.iter().any(|recipe| recipe.request == request);
        if request.len() > REQUEST_MAX_BYTES || answer_bytes > ANSWER_MAX_BYTES || is_known {
            return;
        }
        self.ids += 1;
        let recipe = Recipe {
            request: request.to_vec(),
            plan: Rc::clone(plan),
            id: self.ids,
        };
        if self.recipes.len() < RECIPES_MAX {
            self.recipes.push(recipe);
        } else {
            self.recipes[self.oldest] = recipe;
            self.oldest = (self.oldest + 1) % RECIPES_MAX;
        }
    }

    /// The request that these bytes begin with. Only whole requests are remembered, and where a
    /// request ends is said by its own bytes, so that nothing longer can begin the same.
    pub(crate) fn find(&mut self, input: &[u8]) -> Option<Known> {
        let place = self.place(input)?;
        let recipe = &self.recipes[place];
        Some(Known {
            request_bytes: recipe.request.len(),
            plan: Rc::clone(&recipe.plan),
        })
    }

    /// When the input is one request over and over, to its end, and its answer is instant: which,
    /// and how often.
    pub(crate) fn repeated(&mut self, input: &[u8]) -> Option<(u64, usize, &Plan)> {
        let place = self.place(input)?;
        let Recipe { request, plan, id } = &self.recipes[place];
        plan.instant_bytes()?;
        let mut pieces = input.chunks_exact(request.len());
        let all_same = pieces.by_ref().all(|piece| piece == request.as_slice());
        (all_same && pieces.remainder().is_empty())
            .then(|| (*id, input.len() / request.len(), plan.as_ref()))
    }

    fn place(&mut self, input: &[u8]) -> Option<usize> {
        let begins = |recipe: &Recipe| input.starts_with(&recipe.request);
        if self.recipes.get(self.last).is_some_and(begins) {
            return Some(self.last);
        }
        self.last = self.recipes.iter().position(begins)?;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Step;

    fn plan(bytes: &[u8]) -> Rc<Plan> {
        Rc::new(Plan::new(200, true, vec![Step::Bytes(bytes.to_vec())]))
    }

    #[test]
    fn a_remembered_request_is_found_at_the_beginning_of_the_input() {
        let mut recipes = Recipes::default();
        recipes.add(b"GET /a\n\n", &plan(b"A"));
        recipes.add(b"GET /b\n\n", &plan(b"B"));
        let known = recipes.find(b"GET /b\n\nGET").unwrap();
        assert_eq!(known.request_bytes, 8);
        assert_eq!(known.plan, plan(b"B"));
        assert!(recipes.find(b"GET /c\n\n").is_none());
        assert!(recipes.find(b"GET /b\n").is_none());
    }

    #[test]
    fn repetitions_count_only_when_they_fill_the_input() {
        let mut recipes = Recipes::default();
        recipes.add(b"aa", &plan(b"A"));
        assert_eq!(
            recipes.repeated(b"aaaaaa").map(|(_, count, _)| count),
            Some(3)
        );
        assert!(recipes.repeated(b"aaa").is_none());
        assert!(recipes.repeated(b"aabb").is_none());
    }

    #[test]
    fn what_is_too_large_is_not_remembered_and_the_oldest_goes_first() {
        let mut recipes = Recipes::default();
        recipes.add(&[b'x'; REQUEST_MAX_BYTES + 1], &plan(b"A"));
        recipes.add(b"y", &plan(&[0; ANSWER_MAX_BYTES + 1]));
        assert!(recipes.recipes.is_empty());
        for number in 0..=RECIPES_MAX {
            recipes.add(format!("{number:02}").as_bytes(), &plan(b"A"));
        }
        assert!(recipes.find(b"00").is_none());
        assert!(recipes.find(b"01").is_some());
        assert_eq!(recipes.recipes.len(), RECIPES_MAX);
    }
}
